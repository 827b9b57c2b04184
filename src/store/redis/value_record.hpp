// What the server keeps of a cached value beside its data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "lock/value.hpp"
#include "store/redis/reply.hpp"

namespace dlock::redis {

// What is larger travels in pieces of this size.
constexpr std::size_t value_piece = 256u << 10;

// What is asked for of a value that is looked at.
constexpr const char* value_info_fields[] = {"size", "stale", "lives"};

struct ValueRecord {
  std::string fence;  // of the run it is from; names the key of the data
  std::size_t size = 0;
  std::string sum;
  std::string data;  // of a value that did not travel in pieces
  bool is_fresh = false;

  bool is_in_pieces() const { return size > value_piece; }
};

// What is asked for, in this order.
constexpr const char* value_fields[] = {"fence", "size", "sum", "stale", "data"};

// The checksum of a value as it is kept.
std::string sum_of(const std::string& bytes);

// From the reply to HMGET of these fields and that to PTTL of the same key. Nothing if
// there is none, or none that dlock has written.
std::optional<ValueRecord> value_record_from(const Reply& fields, const Reply& left);

// The same of the fields of value_info_fields. A value that an older dlock has stored
// does not say how long it lives in all, and so has no age.
std::optional<ValueInfo> value_info_from(const Reply& fields, const Reply& left);

}  // namespace dlock::redis
