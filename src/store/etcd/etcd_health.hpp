// Examines a cluster, and judges it by what its members say. It leaves nothing behind:
// the trial write never takes effect, and the lease is revoked.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/checks.hpp"
#include "store/etcd/etcd_messages.hpp"

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

struct MemberFacts : ServerFacts {
  // If it replied, and reports it to this user.
  std::optional<StatusResult> status;
};

// What the cluster has reported; fields are empty where it did not.
struct EtcdFacts : StoreFacts {
  std::vector<MemberFacts> named;  // in the URL, in its order
  std::string user;                // logged in as this user; empty: no login
  std::string prefix;              // of the keys of the namespace

  std::optional<Failure> failure;  // why the cluster did not answer the user
  std::optional<std::chrono::nanoseconds> login_took;
  bool login_is_off = false;
  std::vector<ClusterMember> members;
  std::optional<std::vector<Alarm>> alarms;
  bool answers_keep_alive = true;  // a proxy may not
  // Its error to a write in the namespace, if it refuses one.
  std::optional<Failure> refuses_work;
};

// The shortest lease that a cluster grants, of so many seconds; 0 if that is impossible.
milliseconds least_ttl_from(std::int64_t seconds);

// One finding for each check; a check that depends on another follows it.
std::vector<Finding> findings_of(const EtcdFacts& facts);

}  // namespace dlock::etcd
