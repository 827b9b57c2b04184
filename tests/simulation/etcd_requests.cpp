#include "tests/simulation/etcd_requests.hpp"

#include <algorithm>

namespace dlock::simulation {

bool is_within(const std::string& key, const std::string& begin, const std::string& end) {
  if (end.empty()) return key == begin;
  return key >= begin && (key < end || end == std::string(1, '\0'));
}

std::string encoded(const etcd::KeyValue& pair, bool key_only) {
  return message_of([&](pbf_writer& to) {
    to.add_bytes(1, pair.key);
    to.add_int64(2, pair.create_revision);
    to.add_int64(3, pair.mod_revision);
    to.add_int64(4, pair.version);
    if (!key_only) to.add_bytes(5, pair.value);
    to.add_int64(6, pair.lease);
  });
}

std::string encoded(const etcd::RangeResult& result, bool keys_only) {
  return message_of([&](pbf_writer& to) {
    for (const auto& pair : result.pairs) append(to, 2, encoded(pair, keys_only));
    to.add_bool(3, result.more);
    to.add_int64(4, result.count);
  });
}

etcd::RangeRequest range_in(std::string_view bytes) {
  etcd::RangeRequest request;
  read_all(bytes, [&](pbf_reader& from) {
    switch (from.tag()) {
      case 1: request.key = from.get_bytes(); return true;
      case 2: request.range_end = from.get_bytes(); return true;
      case 3: request.limit = from.get_int64(); return true;
      case 8: request.keys_only = from.get_bool(); return true;
      default: return false;
    }
  });
  return request;
}

namespace {

etcd::PutRequest put_in(std::string_view bytes) {
  etcd::PutRequest request;
  read_all(bytes, [&](pbf_reader& from) {
    switch (from.tag()) {
      case 1: request.key = from.get_bytes(); return true;
      case 2: request.value = from.get_bytes(); return true;
      case 3: request.lease = from.get_int64(); return true;
      default: return false;
    }
  });
  return request;
}

etcd::DeleteRequest deletion_in(std::string_view bytes) {
  etcd::DeleteRequest request;
  read_all(bytes, [&](pbf_reader& from) {
    switch (from.tag()) {
      case 1: request.key = from.get_bytes(); return true;
      case 2: request.range_end = from.get_bytes(); return true;
      default: return false;
    }
  });
  return request;
}

etcd::Compare compare_in(std::string_view bytes) {
  etcd::Compare compare;
  read_all(bytes, [&](pbf_reader& from) {
    switch (from.tag()) {
      case 1:
        compare.result = static_cast<etcd::Compare::Result>(from.get_enum());
        return true;
      case 2:
        compare.target = static_cast<etcd::Compare::Target>(from.get_enum());
        return true;
      case 3: compare.key = from.get_bytes(); return true;
      case 5:
      case 6: compare.number = from.get_int64(); return true;
      case 7: compare.value = from.get_bytes(); return true;
      case 64: compare.range_end = from.get_bytes(); return true;
      default: return false;
    }
  });
  return compare;
}

etcd::Operation operation_in(std::string_view bytes) {
  etcd::Operation operation;
  read_all(bytes, [&](pbf_reader& from) {
    switch (from.tag()) {
      case 1: operation = range_in(view(from)); return true;
      case 2: operation = put_in(view(from)); return true;
      case 3: operation = deletion_in(view(from)); return true;
      default: return false;
    }
  });
  return operation;
}

}  // namespace

etcd::TxnRequest txn_in(std::string_view bytes) {
  etcd::TxnRequest txn;
  read_all(bytes, [&](pbf_reader& from) {
    switch (from.tag()) {
      case 1: txn.conditions.push_back(compare_in(view(from))); return true;
      case 2: txn.then.push_back(operation_in(view(from))); return true;
      case 3: txn.otherwise.push_back(operation_in(view(from))); return true;
      default: return false;
    }
  });
  return txn;
}

std::pair<std::int64_t, std::int64_t> numbers_in(std::string_view bytes) {
  std::pair<std::int64_t, std::int64_t> numbers;
  read_all(bytes, [&](pbf_reader& from) {
    (from.tag() == 1 ? numbers.first : numbers.second) = from.get_int64();
    return true;
  });
  return numbers;
}

bool writes(const etcd::TxnRequest& txn) {
  const auto is_write = [](const etcd::Operation& one) {
    return !std::holds_alternative<etcd::RangeRequest>(one);
  };
  return std::any_of(txn.then.begin(), txn.then.end(), is_write) ||
         std::any_of(txn.otherwise.begin(), txn.otherwise.end(), is_write);
}

}  // namespace dlock::simulation
