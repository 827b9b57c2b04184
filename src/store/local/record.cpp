#include "store/local/record.hpp"

#include <bit>
#include <cstddef>
#include <cstring>

#include "util/checksum.hpp"

namespace dlock::local {
namespace {

constexpr std::uint64_t format = 0x35306b636f6c64u;  // "dlock05"

// The header at the beginning of the file. The checksum covers the fields after it and
// the payload.
struct RecordHead {
  std::uint64_t format = dlock::local::format;
  std::uint64_t checksum = 0;
  std::uint64_t sequence = 0;
  std::int64_t boot = 0;  // nanoseconds
  std::int64_t wall = 0;  // microseconds
  std::uint32_t size = 0;
  std::uint32_t half = 0;
};
static_assert(sizeof(RecordHead) == record_head_size);

std::uint64_t checksum_of(const RecordHead& head, std::string_view payload) {
  constexpr auto covered = offsetof(RecordHead, sequence);
  const auto* fields = reinterpret_cast<const char*>(&head) + covered;
  return checksum(payload, checksum({fields, sizeof head - covered}));
}

}  // namespace

bool is_record_file_size(std::uint64_t size) {
  return std::has_single_bit(size) && size >= smallest_record_file &&
         size <= largest_record_file;
}

std::optional<std::size_t> record_file_size(std::size_t payload_size) {
  auto size = smallest_record_file;
  while (size <= largest_record_file && half_capacity(size) < payload_size) size *= 2;
  return size <= largest_record_file ? std::optional(size) : std::nullopt;
}

std::size_t half_capacity(std::size_t file_size) {
  return (file_size - sizeof(RecordHead)) / 2;
}

std::size_t half_begin(std::size_t file_size, unsigned half) {
  return sizeof(RecordHead) + half * half_capacity(file_size);
}

std::optional<Record> record_in(std::string_view file) {
  if (!is_record_file_size(file.size())) return std::nullopt;
  RecordHead head;
  std::memcpy(&head, file.data(), sizeof head);
  if (head.format != format || head.half > 1 || head.size > half_capacity(file.size()) ||
      head.boot < 0 || !is_possible(WallTime(head.wall))) {
    return std::nullopt;
  }
  const auto payload = file.substr(half_begin(file.size(), head.half), head.size);
  if (head.checksum != checksum_of(head, payload)) return std::nullopt;
  return Record{payload,
                head.sequence,
                {Clock::time_point(nanoseconds(head.boot)), WallTime(head.wall)},
                head.half};
}

bool is_of_another_format(std::string_view file) {
  constexpr std::string_view mark = "dlock";
  std::uint64_t found = 0;
  if (!file.starts_with(mark) || file.size() < sizeof found) return false;
  std::memcpy(&found, file.data(), sizeof found);
  return found != format;
}

std::optional<std::uint64_t> sequence_in(std::string_view head) {
  RecordHead fields;
  if (head.size() < sizeof fields) return std::nullopt;
  std::memcpy(&fields, head.data(), sizeof fields);
  return fields.sequence;
}

std::string record_head(const Record& record) {
  RecordHead head;
  head.sequence = record.sequence;
  head.boot = record.written.boot.time_since_epoch().count();
  head.wall = record.written.wall.count();
  head.size = static_cast<std::uint32_t>(record.payload.size());
  head.half = record.half;
  head.checksum = checksum_of(head, record.payload);
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes;
}

std::string record_file(std::size_t file_size, const Record& record) {
  auto bytes = record_head(record);
  bytes += record.payload;
  bytes.resize(file_size);
  return bytes;
}

}  // namespace dlock::local
