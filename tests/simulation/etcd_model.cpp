#include "tests/simulation/etcd_model.hpp"

#include <algorithm>
#include <utility>

#include "store/etcd/etcd_entry.hpp"
#include "tests/simulation/etcd_member.hpp"
#include "tests/simulation/etcd_requests.hpp"

namespace dlock::simulation {
namespace {

using etcd::Compare;
using etcd::KeyChange;
using etcd::KeyValue;

}  // namespace

// From one member to another, and until something is written.
Time EtcdCluster::hop() {
  return kernel().random.spread(50 * microsecond, 5 * millisecond);
}

etcd::RangeResult EtcdData::range(const etcd::RangeRequest& request) const {
  etcd::RangeResult result;
  for (auto at = pairs.lower_bound(request.key); at != pairs.end(); ++at) {
    if (!is_within(at->first, request.key, request.range_end)) break;
    ++result.count;
    const bool is_full = request.limit > 0 && result.count > request.limit;
    if (!is_full) result.pairs.push_back(at->second);
    result.more = is_full;
  }
  return result;
}

bool EtcdData::holds(const Compare& compare) const {
  etcd::RangeRequest all;
  all.key = compare.key;
  all.range_end = compare.range_end;
  auto pairs_in_it = range(all).pairs;
  if (pairs_in_it.empty()) {
    if (compare.target == Compare::Target::value) return false;
    pairs_in_it.emplace_back();
  }
  return std::all_of(pairs_in_it.begin(), pairs_in_it.end(), [&](const KeyValue& pair) {
    const auto number = compare.target == Compare::Target::create_revision
                            ? pair.create_revision
                            : pair.mod_revision;
    const auto order = compare.target == Compare::Target::value
                           ? pair.value.compare(compare.value)
                           : static_cast<int>(number > compare.number) -
                                 static_cast<int>(number < compare.number);
    switch (compare.result) {
      case Compare::Result::equal: return order == 0;
      case Compare::Result::greater: return order > 0;
      case Compare::Result::less: return order < 0;
      default: return order != 0;
    }
  });
}

bool EtcdCluster::can_write() const {
  const auto awake =
      std::count_if(members.begin(), members.end(),
                    [](const EtcdMember* member) { return member->is_awake(); });
  return reign.leader->is_awake() &&
         awake * 2 > static_cast<std::ptrdiff_t>(members.size());
}

// All leases last for their full time again. The former leader, if it runs, may go on
// answering for a while, and has leases revoked that end by what it knows.
void EtcdCluster::be_led_by(EtcdMember& member, bool is_noticed, Time noticed_after) {
  if (reign.leader == &member) return;
  kernel().trace("another member of etcd is elected, in term " +
                 std::to_string(reign.term + 1));
  former = {};
  if (!is_noticed) {
    former = reign;
    seen_by_former = data;
    kernel().at(kernel().now + noticed_after, [this, term = reign.term] {
      if (former.term == term) former = {};
      changed();
    });
  }
  begin_reign(member);
}

void EtcdCluster::begin_reign(EtcdMember& member) {
  reign = {reign.term + 1, &member, {}};
  for (const auto& [id, lease] : data.leases) set_end(reign, id);
}

void EtcdCluster::elect_later(const EtcdMember& absent) {
  if (reign.leader != &absent) return;
  const auto after = kernel().random.spread(100 * millisecond, 2 * second);
  kernel().at(kernel().now + after, [this, &absent] {
    if (reign.leader != &absent || absent.is_awake()) return;
    std::vector<EtcdMember*> awake;
    for (auto* member : members) {
      if (member->is_awake()) awake.push_back(member);
    }
    if (awake.size() * 2 <= members.size()) return elect_later(absent);
    const auto left = std::max<Time>(absent.paused_until - kernel().now, 0);
    be_led_by(*awake[kernel().random.below(awake.size())], !absent.is_up,
              left + kernel().random.spread(millisecond, second));
  });
}

void EtcdCluster::set_end(EtcdReign& of, std::int64_t lease) {
  const auto span = static_cast<double>(data.leases.at(lease).ttl * second);
  const auto end = kernel().now + static_cast<Time>(span / (1 + of.leader->rate));
  of.ends[lease] = end;
  kernel().at(end + kernel().random.between(0, second / 2),
              [this, lease, term = of.term] { expire(lease, term); });
}

void EtcdCluster::expire(std::int64_t lease, std::uint64_t term) {
  auto* by = reign.term == term                                ? &reign
             : former.leader != nullptr && former.term == term ? &former
                                                               : nullptr;
  if (by == nullptr || !by->leader->is_up) return;
  const auto end = by->ends.find(lease);
  if (end == by->ends.end() || end->second > kernel().now) return;
  const auto again = by->leader->paused_until;
  if (again > kernel().now || !can_write()) {
    const auto next = std::max(again, kernel().now + second / 2);
    return kernel().at(next + hop(), [this, lease, term] { expire(lease, term); });
  }
  if (by == &reign) return revoke(lease);
  kernel().trace("a former leader has a lease revoked");
  kernel().at(kernel().now + kernel().random.spread(millisecond, second),
              [this, lease] { revoke(lease); });
}

void EtcdCluster::revoke(std::int64_t lease) {
  const auto found = data.leases.find(lease);
  if (found == data.leases.end()) return;
  const auto keys = std::move(found->second.keys);
  data.leases.erase(found);
  if (keys.empty()) return;
  ++data.revision;
  for (const auto& key : keys) {
    etcd::DeleteRequest request;
    request.key = key;
    remove(request);
  }
  changed();
}

void EtcdCluster::put(const etcd::PutRequest& request) {
  auto& pair = data.pairs[request.key];
  if (pair.lease != 0) data.leases[pair.lease].keys.erase(request.key);
  pair.key = request.key;
  pair.value = request.value;
  pair.lease = request.lease;
  pair.mod_revision = data.revision;
  if (pair.version++ == 0) pair.create_revision = data.revision;
  if (pair.lease != 0) data.leases.at(pair.lease).keys.insert(request.key);
  history.push_back({KeyChange::Kind::put, pair});
}

void EtcdCluster::remove(const etcd::DeleteRequest& request) {
  for (auto at = data.pairs.lower_bound(request.key); at != data.pairs.end();) {
    if (!is_within(at->first, request.key, request.range_end)) break;
    const auto lease = data.leases.find(at->second.lease);
    if (lease != data.leases.end()) lease->second.keys.erase(at->first);
    KeyValue gone;
    gone.key = at->first;
    gone.mod_revision = data.revision;
    history.push_back({KeyChange::Kind::deletion, std::move(gone)});
    at = data.pairs.erase(at);
  }
}

void EtcdCluster::changed() {
  for (auto* member : members) member->tell_watchers();
}

Peer::Leases EtcdCluster::leases(const std::string& lock) {
  if (parsed != data.revision) holders.clear();
  parsed = data.revision;
  const auto [of_lock, is_new] = holders.try_emplace(lock);
  if (is_new) {
    const auto prefix = etcd::queue_prefix({"dlock", lock});
    for (auto at = data.pairs.lower_bound(prefix); at != data.pairs.end(); ++at) {
      if (!at->first.starts_with(prefix)) break;
      const auto entry = etcd::entry_from(at->second, prefix);
      const bool counts = entry.holds() && entry.standing != etcd::Standing::ended;
      if (counts) of_lock->second[entry.fence().number] = entry.lease;
    }
  }
  Peer::Leases all;
  for (const auto& [fence, lease] : of_lock->second) {
    all[fence] = reign.ends.count(lease) > 0 ? reign.ends.at(lease) : kernel().now;
    if (former.ends.count(lease) == 0) continue;
    all[fence] = std::min(all[fence], former.ends.at(lease));
  }
  return all;
}

}  // namespace dlock::simulation
