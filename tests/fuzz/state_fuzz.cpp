// States of locks as the embedded database holds them: bytes that another program, or
// nobody in his right mind, has written.

#include <cstring>

#include "fuzz.hpp"
#include "store/local/state.hpp"

using namespace dlock;
using fuzz::require;

namespace {

// As in state.cpp, or the bytes behind it would never be looked at.
std::string with_checksum(std::string_view bytes) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const char c : bytes) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char raw[sizeof sum];
  std::memcpy(raw, &sum, sizeof sum);
  return std::string(raw, sizeof raw) + std::string(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::text_of(data, size);
  local::decoded(bytes);

  const auto state = local::decoded(with_checksum(bytes));
  if (!state) return 0;
  const auto written = local::encoded(*state);
  const auto again = local::decoded(written);
  require(again.has_value(), "what is written can be read");
  require(local::encoded(*again) == written, "what is read is what was written");
  require(written.size() == bytes.size() + sizeof(std::uint64_t), "nothing is added");
  return 0;
}
