// The files of the state folder, which another program, a crash or a member of a shared
// directory may have damaged in any way: the record, the name in it, and the payload.

#include <xxhash.h>

#include <cstring>

#include "fuzz.hpp"
#include "record/states.hpp"
#include "rules/limit.hpp"
#include "store/local/record_file.hpp"

using namespace dlock;
using fuzz::require;

namespace {

// A file of the smallest size that begins with the input. Its first half follows the
// head.
std::string file_of(std::string_view bytes) {
  std::string file(bytes.substr(0, local::smallest_record_file));
  file.resize(local::smallest_record_file);
  return file;
}

// With the checksum that record_file.cpp expects, because otherwise the bytes after it
// would never be read. The head is the format, the checksum and 32 more bytes, which end
// with the size and the half.
std::string with_checksum(std::string file) {
  std::uint32_t size = 0;
  std::uint32_t half = 0;
  std::memcpy(&size, file.data() + 40, sizeof size);
  std::memcpy(&half, file.data() + 44, sizeof half);
  const auto capacity = local::half_capacity(file.size());
  size %= static_cast<std::uint32_t>(capacity + 1);
  half %= 2;
  std::memcpy(file.data(), "dlock05", 8);
  std::memcpy(file.data() + 40, &size, sizeof size);
  std::memcpy(file.data() + 44, &half, sizeof half);
  const auto sum = ::XXH3_64bits_withSeed(
      file.data() + local::half_begin(file.size(), half), size,
      ::XXH3_64bits(file.data() + 16, local::record_head_size - 16));
  std::memcpy(file.data() + 8, &sum, sizeof sum);
  return file;
}

// What is read from a payload can be written, and is then read as the same.
void look_into(std::string_view payload) {
  const auto named = local::named_in(payload);
  if (!named) return;
  require(local::with_name(named->name, named->value) == payload,
          "a name is written as it was read");
  for (const auto kept : {local::StateKind::lock, local::StateKind::limit}) {
    require(local::kind_of(local::key_of(named->name, kept).file) == kept,
            "every name has a file");
  }
  if (const auto state = record::decoded(named->value)) {
    const auto written = record::encoded(*state);
    const auto again = record::decoded(written);
    require(again && record::encoded(*again) == written, "a state is what was written");
  }
  // Older files lack the pids of waiters.
  if (const auto limit = record::decoded_limit(named->value)) {
    const auto written = record::encoded(*limit);
    const auto again = record::decoded_limit(written);
    require(again && record::encoded(*again) == written, "a limit is what was written");
  }
}

void look_at(std::string_view file, bool has_checksum) {
  const auto record = local::record_in(file);
  if (!record) return;
  require(record->payload.size() <= local::half_capacity(file.size()),
          "a payload fits into a half");
  require(local::sequence_in(file) == record->sequence, "the sequence is the head's");
  require(local::record_head(*record) == file.substr(0, local::record_head_size),
          "a head is written as it was read");
  // A flipped bit is detected wherever it matters.
  if (has_checksum && !record->payload.empty()) {
    std::string flipped(file);
    const auto begin = local::half_begin(file.size(), record->half);
    const auto at = begin + record->sequence % record->payload.size();
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << record->sequence % 8));
    require(!local::record_in(flipped), "a flipped bit is seen");
  }
  look_into(record->payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::text_of(data, size);
  local::sequence_in(bytes);
  look_at(bytes, false);

  look_at(with_checksum(file_of(bytes)), true);
  look_into(bytes);
  return 0;
}
