// The checks of `dlock doctor` that several kinds of store have in common. Each store
// adds the facts.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock {

// A check that could not be made: "not checked: WHY".
Finding not_checked(std::string check, const std::string& why, std::string advice = "");

// The failure as a fact about a server. Throws it if it says nothing about one, because
// this machine lacks something or the caller wants to stop.
Failure let_pass(const Failure& failure);

// For a server that refused the login, or cannot be used as the URL says, or did not
// reply: "login" or "reachable".
Finding refusal_finding(const Failure& failure, std::string login_advice,
                        std::string advice);

// "2 of 3 WHAT; WHY", the reasons of those that do not reply; too few are an error.
struct Reached {
  std::vector<std::optional<Failure>> failures;  // of each server; nothing: it replies
  std::size_t needed = 1;
  std::string what;  // with a blank in front; may be empty
  std::string advice_if_too_few;
  std::string advice;
};
Finding reached_finding(std::string check, const Reached& reached);

// Whether the clocks of `who` ("servers") agree, because fences and the order of a queue
// depend on them. `spread`: see spread_of(); `harm` is added if they do not.
Finding clocks_finding(const std::string& who,
                       std::optional<std::chrono::microseconds> spread,
                       const std::string& harm, std::string advice);

// How long doctor waits for a reply if the user has not said: longer than a run does, to
// see how far away a server is that is too slow for a run.
inline constexpr milliseconds examination_limit{10'000};

// How the clock of a server whose clock alone ends leases differs from this machine's.
Finding clock_finding(std::optional<std::chrono::microseconds> ahead);

// By how much the clocks differ; nothing if there are none.
std::optional<std::chrono::microseconds> spread_of(
    const std::vector<std::chrono::microseconds>& clocks);

// Clocks that differ by less are in order: a failover takes longer.
constexpr std::chrono::microseconds clocks_agree_within{1'000'000};

// "3s behind" or "3s ahead of".
std::string distance_of(std::chrono::microseconds ahead);

// Nothing if the list is empty.
std::optional<std::chrono::microseconds> median_of(
    std::vector<std::chrono::nanoseconds> round_trips);

// How long one operation on the store may have to wait for replies.
milliseconds needed_budget(std::chrono::microseconds round_trip, int trips);

// The shortest lease that leaves this budget for an operation, by the rules of
// LeaseTiming.
milliseconds smallest_ttl_for(milliseconds budget);

// The shortest lease with which a run survives a failover of this length that begins just
// before a renewal is due.
milliseconds smallest_ttl_to_outlive(milliseconds failover);

// The finding of dlock doctor on a failover that takes this long: "DETECTED a --ttl
// of 6.0s or more survives WHAT".
Finding failover_finding(milliseconds failover, const std::string& detected,
                         const std::string& what, std::string advice);

// The finding of dlock doctor; nothing if there are no round trips.
std::optional<Finding> round_trip_finding(
    const std::vector<std::chrono::nanoseconds>& round_trips, int trips_to_renew);

// With the round trip of the slowest server, and the shortest lease for it, which is at
// least `least_ttl`.
Examination examination_of(std::vector<Finding> findings,
                           std::optional<std::chrono::microseconds> slowest,
                           int trips_to_renew, milliseconds least_ttl = milliseconds(0));

// For a store of several servers: adds a finding of one of them, which it names if it is
// a problem, or keeps the one of the same check that is there, if that is as severe.
void add_worst(std::vector<Finding>& findings, Finding found, const std::string& server);

// "a, b"
std::string listed(const std::vector<std::string>& words);

}  // namespace dlock
