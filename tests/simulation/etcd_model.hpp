// An etcd cluster in memory: what a majority of its members has written, and its leaders,
// of which a former one may not know that it was replaced.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "store/etcd/etcd_messages.hpp"
#include "tests/simulation/kernel.hpp"

namespace dlock::simulation {

class EtcdMember;

inline Kernel& kernel() { return *Kernel::current(); }

// What a majority has written.
struct EtcdData {
  struct Lease {
    std::int64_t ttl = 0;            // seconds
    const Process* owner = nullptr;  // unless it chose the id, as of a lease for all
    std::set<std::string> keys;
  };

  std::int64_t revision = 1;
  std::int64_t compacted = 0;
  std::map<std::string, etcd::KeyValue> pairs;
  std::map<std::int64_t, Lease> leases;
  std::int64_t next_lease = 1;  // for a request that leaves the choice to it

  etcd::RangeResult range(const etcd::RangeRequest& request) const;
  bool holds(const etcd::Compare& compare) const;
};

// Leases are written by a majority, but when each ends is known only to a leader.
struct EtcdReign {
  std::uint64_t term = 1;
  EtcdMember* leader = nullptr;
  std::map<std::int64_t, Time> ends;  // of leases
};

struct EtcdCluster {
  std::vector<EtcdMember*> members;
  EtcdData data;
  std::vector<etcd::KeyChange> history;
  EtcdReign reign;
  // The leader before, as long as it does not know, and its data. (Not an optional, whose
  // map GCC 14 takes for uninitialized.)
  EtcdReign former;
  EtcdData seen_by_former;
  std::uint64_t greatest = 0;  // fence
  std::int64_t parsed = 0;     // the revision of which `holders` are:
  // Of each lock the fences, and their leases.
  std::map<std::string, std::map<std::uint64_t, std::int64_t>> holders;

  static Time hop();
  bool can_write() const;
  void be_led_by(EtcdMember& member, bool is_noticed, Time noticed_after);
  void begin_reign(EtcdMember& member);
  void elect_later(const EtcdMember& absent);
  void set_end(EtcdReign& of, std::int64_t lease);
  void expire(std::int64_t lease, std::uint64_t term);
  void revoke(std::int64_t lease);
  void put(const etcd::PutRequest& request);
  void remove(const etcd::DeleteRequest& request);
  void changed();  // tells watchers
  Peer::Leases leases(const std::string& lock);
};

}  // namespace dlock::simulation
