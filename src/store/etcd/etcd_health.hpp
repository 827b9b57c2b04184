// Judges a cluster: findings from the facts about it.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/store.hpp"
#include "store/etcd/etcd_messages.hpp"
#include "util/failure.hpp"

namespace dlock::etcd {

// Major, minor and patch.
using Version = std::array<int, 3>;

// "3.4.23" as three numbers; 0 for each that is missing.
Version version_from(std::string_view text);
std::string text_of(const Version& version);

// The versions from `first` on have the fault, up to the one of the same minor version
// that mends it.
struct KnownFault {
  Version first;
  Version mended;
  std::string_view what;  // and what it means for locks
};

// Those of a version.
std::vector<KnownFault> known_faults_of(const Version& version);

struct MemberFacts {
  std::string server;              // its address, for messages
  std::optional<Failure> failure;  // why it did not reply
  // If it did, and reports it to this user.
  std::optional<StatusResult> status;
};

// What the cluster has reported; fields are empty where it did not.
struct EtcdFacts {
  std::vector<MemberFacts> named;  // in the URL, in its order
  std::string user;                // logged in as this user; empty: no login
  std::string prefix;              // of the keys of the namespace
  int trips_to_renew = 2;          // round trips of a renewal that has to connect first

  std::optional<Failure> failure;  // why the cluster did not answer the user
  std::optional<std::chrono::nanoseconds> login_took;
  bool login_is_off = false;
  std::vector<ClusterMember> members;
  std::optional<std::vector<Alarm>> alarms;
  std::optional<std::int64_t> least_ttl;  // the shortest it grants, in seconds
  bool answers_keep_alive = true;         // a proxy may not
  // Its error to a write in the namespace, if it refuses one.
  std::optional<Failure> refuses_work;
  std::vector<std::chrono::nanoseconds> round_trips;
};

// One finding for each check; a check that depends on another follows it.
std::vector<Finding> findings_of(const EtcdFacts& facts);

// The shortest lease that the cluster and its round-trip times allow; nothing if unknown.
std::optional<milliseconds> smallest_ttl_of(const EtcdFacts& facts);

}  // namespace dlock::etcd
