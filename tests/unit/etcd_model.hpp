// A model of etcd, with what the rules need: keys with revisions, leases, transactions.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "store/etcd/etcd_messages.hpp"

namespace dlock::etcd {

class EtcdModel {
 public:
  std::int64_t revision() const { return revision_; }
  const std::map<std::string, KeyValue>& keys() const { return keys_; }

  void grant(std::int64_t lease) { leases_.insert(lease); }
  void end(std::int64_t lease) {
    if (leases_.erase(lease) == 0) return;
    const auto before = keys_.size();
    std::erase_if(keys_, [&](const auto& key) { return key.second.lease == lease; });
    if (keys_.size() != before) ++revision_;
  }

  TxnResult execute(const TxnRequest& request) {
    TxnResult result;
    result.succeeded = std::all_of(request.conditions.begin(), request.conditions.end(),
                                   [&](const Compare& c) { return holds(c); });
    const auto& operations = result.succeeded ? request.then : request.otherwise;
    for (const auto& operation : operations) {
      const auto* put = std::get_if<PutRequest>(&operation);
      if (put == nullptr || put->lease == 0 || leases_.count(put->lease) > 0) continue;
      TxnResult gone;
      gone.lease_gone = true;
      return gone;
    }
    const bool writes = std::any_of(
        operations.begin(), operations.end(),
        [](const Operation& o) { return !std::holds_alternative<RangeRequest>(o); });
    if (writes) ++revision_;
    result.revision = revision_;
    for (const auto& operation : operations) {
      result.results.push_back(
          std::visit([&](const auto& one) { return done(one); }, operation));
    }
    return result;
  }

 private:
  static bool is_in(const std::string& key, const std::string& first,
                    const std::string& end) {
    return end.empty() ? key == first : key >= first && key < end;
  }

  static std::int64_t number_of(const KeyValue& pair, Compare::Target target) {
    switch (target) {
      case Compare::Target::create_revision: return pair.create_revision;
      case Compare::Target::mod_revision: return pair.mod_revision;
      case Compare::Target::value: break;
    }
    throw std::logic_error("no number");
  }

  static bool holds(const Compare& compare, const KeyValue& pair) {
    const auto number = number_of(pair, compare.target);
    switch (compare.result) {
      case Compare::Result::equal: return number == compare.number;
      case Compare::Result::greater: return number > compare.number;
      case Compare::Result::less: return number < compare.number;
      case Compare::Result::not_equal: return number != compare.number;
    }
    return false;
  }

  bool holds(const Compare& compare) const {
    bool is_there = false;
    for (const auto& [key, pair] : keys_) {
      if (!is_in(key, compare.key, compare.range_end)) continue;
      is_there = true;
      if (!holds(compare, pair)) return false;
    }
    return is_there || holds(compare, KeyValue{});
  }

  OperationResult done(const PutRequest& put) {
    auto& pair = keys_[put.key];
    if (pair.version == 0) pair.create_revision = revision_;
    pair.key = put.key;
    pair.value = put.value;
    pair.lease = put.lease;
    pair.mod_revision = revision_;
    ++pair.version;
    return PutResult{};
  }
  OperationResult done(const DeleteRequest& deletion) {
    std::erase_if(keys_, [&](const auto& key) {
      return is_in(key.first, deletion.key, deletion.range_end);
    });
    return DeleteResult{};
  }
  OperationResult done(const RangeRequest& range) {
    RangeResult result;
    result.revision = revision_;
    for (const auto& [key, pair] : keys_) {
      if (is_in(key, range.key, range.range_end)) result.pairs.push_back(pair);
    }
    return result;
  }

  std::int64_t revision_ = 1;
  std::map<std::string, KeyValue> keys_;
  std::set<std::int64_t> leases_;
};

}  // namespace dlock::etcd
