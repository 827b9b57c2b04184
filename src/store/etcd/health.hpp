// What is known of a cluster, and what that means for locks.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lock/finding.hpp"
#include "store/etcd/requests.hpp"
#include "util/failure.hpp"

namespace dlock::etcd {

struct MemberFacts {
  std::string server;              // where it is, for messages
  std::optional<Failure> failure;  // what kept it from answering
  StatusResult status;             // if nothing did
};

// As far as the cluster could be asked and said it.
struct Facts {
  std::vector<MemberFacts> named;  // in the URL, in its order
  std::string user;                // as whom it is asked; empty: without a login
  std::string prefix;              // what the keys of the namespace begin with
  int trips_to_renew = 2;          // round trips of a renewal that has to connect first

  std::optional<Failure> failure;  // what kept the cluster from answering to the user
  std::optional<std::chrono::nanoseconds> login_took;
  bool login_is_off = false;
  std::vector<Member> members;
  std::vector<Alarm> alarms;
  std::optional<std::int64_t> least_ttl;  // seconds, that it grants
  // What it says to somebody who would write in the namespace, if it says no.
  std::optional<Failure> refuses_work;
  std::vector<std::chrono::nanoseconds> round_trips;
};

// A line for each check, in the order in which one leads to the next.
std::vector<Finding> findings_of(const Facts& facts);

// The shortest lease that the cluster and its round trips are good for; nothing if it is
// not known.
std::optional<milliseconds> smallest_ttl_of(const Facts& facts);

}  // namespace dlock::etcd
