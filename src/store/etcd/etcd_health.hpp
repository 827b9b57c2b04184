// Examines a cluster, and judges it by what its members say. It leaves nothing behind:
// the trial write never takes effect, and the lease is revoked.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "store/checks.hpp"
#include "store/etcd/etcd_messages.hpp"

namespace dlock::etcd {

struct MemberFacts : ServerFacts {
  // If it replied, and reports it to this user.
  std::optional<StatusResult> status;
};

// What the cluster has reported; fields are empty where it did not. The failure is why it
// did not answer the user, or refuses a write in the namespace.
struct EtcdFacts : ServerFacts {
  std::vector<MemberFacts> named;  // in the URL, in its order
  std::string user;                // logged in as this user; empty: no login
  std::string prefix;              // of the keys of the namespace

  bool login_is_off = false;
  std::vector<ClusterMember> members;
  std::optional<std::vector<Alarm>> alarms;
  bool answers_keep_alive = true;  // a proxy may not
  bool is_denied = false;          // the failure: the user lacks a permission
};

// The shortest lease that a cluster grants, of so many seconds; 0 if that is impossible.
milliseconds least_ttl_from(std::int64_t seconds);

Examination examination_of(const EtcdFacts& facts);

}  // namespace dlock::etcd
