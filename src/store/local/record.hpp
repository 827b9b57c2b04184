// A value in a file of two halves, one of which is complete at every moment.
//
// A header names the current half. A new value is written to the other half first, then
// the header in a single write; so a writer that is killed at any point leaves the old
// value or the new one. Reading needs no mutex: if two writers changed the file
// meanwhile, the checksum does not match, and the file is read again. If it still does
// not match, the file is damaged; an older value is never used instead, as it could grant
// a held lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/local/names.hpp"

namespace dlock::local {

// Sizes of whole files. A lock with 20 past runs fits into the smallest, one with some
// ten thousand waiters into the largest.
constexpr std::size_t smallest_record_file = 8192;
constexpr std::size_t largest_record_file = std::size_t{16} << 20;

struct Record {
  std::string_view payload;
  std::uint64_t sequence = 0;  // number of writes so far
  Moment written;
  unsigned half = 0;
};

// Whether a file of this size can be a record's.
bool is_record_file_size(std::uint64_t size);

// The size of a file with room for a payload of this size; nothing if it is too large.
std::optional<std::size_t> record_file_size(std::size_t payload_size);

// The record in the bytes of a whole file; nothing if they do not match their checksum.
std::optional<Record> record_in(std::string_view file);

// Whether the file was written by a version of dlock with another format.
bool is_of_another_format(std::string_view file);

// The sequence number in the first bytes of a file; nothing if these are too few.
constexpr std::size_t record_head_size = 48;
std::optional<std::uint64_t> sequence_in(std::string_view head);

// Where a half begins in a file of that size, and how many bytes it holds.
std::size_t half_begin(std::size_t file_size, unsigned half);
std::size_t half_capacity(std::size_t file_size);

// The header that makes `record` current.
std::string record_head(const Record& record);

// A whole file of that size with `record` in its first half.
std::string record_file(std::size_t file_size, const Record& record);

}  // namespace dlock::local
