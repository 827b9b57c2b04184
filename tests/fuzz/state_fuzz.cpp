// States of locks and limits in the files of the embedded store, which may contain any
// bytes.

#include "fuzz.hpp"
#include "record/states.hpp"
#include "rules/limit.hpp"

using namespace dlock;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::text_of(data, size);
  // Older files lack the pids of waiters.
  if (const auto limit = record::decoded_limit(bytes)) {
    const auto written = record::encoded(*limit);
    const auto again = record::decoded_limit(written);
    require(again && record::encoded(*again) == written, "a limit is what was written");
  }

  const auto state = record::decoded(bytes);
  if (!state) return 0;
  const auto written = record::encoded(*state);
  const auto again = record::decoded(written);
  require(again.has_value(), "what is written can be read");
  require(record::encoded(*again) == written, "what is read is what was written");
  // Lists at the end that are all empty are not written.
  require(written.size() <= bytes.size(), "nothing is added");
  return 0;
}
