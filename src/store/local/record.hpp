// A value in a file of two halves, of which one is whole at every moment.
//
// A head names the half that counts. A new value goes into the other half first, and then
// the head is written, in one piece; so a writer that is killed anywhere leaves the old
// value or the new one. Reading needs no mutex: what two writers have changed meanwhile
// does not match its checksum, and is read again. What still does not match is damaged,
// and is never taken for an older value, which could grant a lock that is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/local/names.hpp"

namespace dlock::local {

// Whole files; a half is almost half of one. A lock with 20 past runs fits into the
// smallest, one with some ten thousand waiters into the largest.
constexpr std::size_t smallest_record_file = 8192;
constexpr std::size_t largest_record_file = std::size_t{16} << 20;

struct Record {
  std::string_view payload;
  std::uint64_t sequence = 0;  // how often it was written
  Moment written;
  unsigned half = 0;
};

// Whether a file of this size can be a record's.
bool is_record_file_size(std::uint64_t size);

// The size of a file that has room for such a payload; nothing if that is too much.
std::optional<std::size_t> record_file_size(std::size_t payload_size);

// The record in the bytes of a whole file; nothing if they do not match their checksum.
std::optional<Record> record_in(std::string_view file);

// How often the file was written whose bytes begin so; nothing if they are too few.
constexpr std::size_t record_head_size = 48;
std::optional<std::uint64_t> sequence_in(std::string_view head);

// Where in a file of that size a half begins, and how much it holds.
std::size_t half_begin(std::size_t file_size, unsigned half);
std::size_t half_capacity(std::size_t file_size);

// The head that says that `record` is what counts.
std::string record_head(const Record& record);

// A whole file of that size with `record` in its first half.
std::string record_file(std::size_t file_size, const Record& record);

}  // namespace dlock::local
