// The requests to etcd as values, and its replies as protobuf messages.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "grpc/protobuf.hpp"
#include "store/etcd/etcd_messages.hpp"

namespace dlock::simulation {

using grpc::pbf_reader;
using grpc::pbf_writer;

inline void append(pbf_writer& to, unsigned tag, const std::string& message) {
  to.add_message(tag, message);
}

template <typename Fill>
std::string message_of(Fill fill) {
  std::string bytes;
  pbf_writer to(bytes);
  fill(to);
  return bytes;
}

// Calls `take` with each field, which returns false if it does not know it.
template <typename Take>
void read_all(std::string_view bytes, Take take) {
  pbf_reader from(bytes.data(), bytes.size());
  while (from.next()) {
    if (take(from)) continue;
    throw std::runtime_error("the simulation has no field " + std::to_string(from.tag()) +
                             " of a request to etcd");
  }
}

inline std::string_view view(pbf_reader& from) {
  const auto bytes = from.get_view();
  return {bytes.data(), bytes.size()};
}

// Whether a key is in a range as requests name it.
bool is_within(const std::string& key, const std::string& begin, const std::string& end);

std::string encoded(const etcd::KeyValue& pair, bool key_only);
// Without a header.
std::string encoded(const etcd::RangeResult& result, bool keys_only);

// Each throws std::runtime_error for a field that the simulation does not know.
etcd::RangeRequest range_in(std::string_view bytes);
etcd::TxnRequest txn_in(std::string_view bytes);
bool writes(const etcd::TxnRequest& txn);
// The first two fields of a request: the id of a lease, or its ttl and then the id.
std::pair<std::int64_t, std::int64_t> numbers_in(std::string_view bytes);

}  // namespace dlock::simulation
