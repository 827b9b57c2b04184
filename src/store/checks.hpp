// What `dlock doctor` checks: for each kind of store a table, whose order is that of the
// findings, and behind it the checks of all stores; and judgments that they share.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lock/store.hpp"
#include "store/store_url.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock {

// Takes what a check says, under its name. If it says nothing, it does not apply.
class CheckReport {
 public:
  CheckReport(std::string check, std::vector<Finding>& findings)
      : check_(std::move(check)), findings_(findings) {}

  void level(Finding::Level level, std::string message, std::string advice = "") {
    findings_.push_back({check_, level, std::move(message), std::move(advice)});
  }
  void ok(std::string message) { level(Finding::Level::ok, std::move(message)); }
  void info(std::string message, std::string advice = "") {
    level(Finding::Level::info, std::move(message), std::move(advice));
  }
  void warning(std::string message, std::string advice = "") {
    level(Finding::Level::warning, std::move(message), std::move(advice));
  }
  void error(std::string message, std::string advice) {
    level(Finding::Level::error, std::move(message), std::move(advice));
  }
  // The check could not be made: "not checked: WHY".
  void not_checked(const std::string& why, std::string advice = "") {
    info("not checked: " + why, std::move(advice));
    findings_.back().is_made = false;
  }

 private:
  std::string check_;
  std::vector<Finding>& findings_;
};

// A row of a table of checks.
template <typename Facts>
struct Check {
  const char* name;
  void (*judge)(const Facts& facts, CheckReport& say);
  // What the store is asked for, in its language, besides what it is asked for anyway.
  std::string_view question = {};
  // Whether the checks behind it can only be made if it finds no error.
  bool is_basis = false;
};

// A server, or a member of a group of them.
struct ServerFacts {
  std::string server;              // its address, for messages
  std::optional<Failure> failure;  // why it did not reply
};

// What the checks of all stores need; fields are empty where nothing is known.
struct StoreFacts {
  bool has_clock = false;                                // that alone ends leases
  std::optional<std::chrono::microseconds> clock_ahead;  // of this machine's
  std::vector<std::chrono::nanoseconds> round_trips;
  int trips_to_renew = 3;            // round trips of a renewal that has to connect first
  milliseconds store_timeout{2000};  // of a run
  milliseconds least_ttl{0};         // that the store takes
};

// The table of the checks of all stores.
std::span<const Check<StoreFacts>> common_checks();

// Adds what the checks say. Whether all were made, and none of those in front was the
// basis of the others and found an error.
template <typename Facts>
bool judge(std::span<const Check<Facts>> checks, const Facts& facts,
           std::vector<Finding>& findings) {
  for (const auto& check : checks) {
    const auto before = findings.size();
    CheckReport say(check.name, findings);
    check.judge(facts, say);
    const bool has_spoken = findings.size() > before;
    if (check.is_basis && has_spoken && findings.back().level == Finding::Level::error) {
      return false;
    }
  }
  return true;
}

// The findings of a store, or of one of its servers.
template <typename Facts, std::size_t count>
std::vector<Finding> judged(const Check<Facts> (&checks)[count], const Facts& facts) {
  std::vector<Finding> findings;
  if (judge(std::span<const Check<Facts>>(checks), facts, findings)) {
    judge(common_checks(), static_cast<const StoreFacts&>(facts), findings);
  }
  return findings;
}

// The failure as a fact about a server. Throws it if it says nothing about one, because
// this machine lacks something or the caller wants to stop.
Failure let_pass(const Failure& failure);

// Whether the server refused the login, or cannot be used as the URL says.
bool is_refusal(const Failure& failure);

// --- Judgments that stores share ---

// Whether as many servers reply as are needed. `settings`: of the server, that can be why
// it does not. Says nothing of a refusal by the only one: see judge_refusal().
// `can_lock`: whether those that reply grant locks, as far as is known.
void judge_reachable(const std::vector<ServerFacts>& servers, std::size_t needed,
                     const std::string& settings, CheckReport& say, bool can_lock = true);
template <typename Facts>
std::vector<ServerFacts> servers_of(const std::vector<Facts>& servers) {
  return {servers.begin(), servers.end()};
}

// A login that was refused. `also`: what else to check besides the options.
void judge_refusal(const Failure& failure, const std::string& also, CheckReport& say);

// `needed`: "Redis 6.2 or later".
void judge_version(const std::string& version, bool is_old, const std::string& needed,
                   CheckReport& say);

// `missing`: "may not call get"; empty: nothing is.
void judge_permissions(const std::string& user, const std::string& missing,
                       const std::string& advice, CheckReport& say);

// Fences that no clock explains, each with what has it, as the store has them; the next
// grants would go on from there. See greatest_plausible_fence().
using FarFences = std::vector<std::pair<std::string, std::string>>;
void judge_fences(const FarFences& fences, CheckReport& say);

// A store that does not work now, for this reason.
void judge_work(const std::string& why, CheckReport& say,
                const std::string& advice = "check the server's log");

constexpr const char* synchronize_clocks =
    "synchronize the clocks of all servers by slewing (chrony, ntpd)";

// Whether the clocks of `who` ("servers") agree, because fences and the order of a queue
// depend on them. `spread`: see spread_of(); `harm` is added if they do not.
void judge_clocks(const std::string& who, std::optional<std::chrono::microseconds> spread,
                  const std::string& harm, CheckReport& say);

// A failover that takes this long: "DETECTED a --ttl of 6.0s or more survives WHAT".
void judge_failover(milliseconds failover, const std::string& detected,
                    const std::string& what, std::string advice, CheckReport& say);

// --- Round trips and clocks ---

constexpr std::size_t round_trips_measured = 20;

// Adds the durations of calls, until all are measured or the time is up.
template <typename Work>
asio::awaitable<void> measure(StoreFacts& facts, Clock::time_point until, Work work) {
  for (std::size_t i = 0; i < round_trips_measured && Clock::now() < until; ++i) {
    const auto began = Clock::now();
    co_await work();
    facts.round_trips.emplace_back(Clock::now() - began);
  }
}

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

// With the round trip of the slowest of these servers, and the shortest lease for it.
Examination examination_of(std::vector<Finding> findings,
                           const std::vector<StoreFacts>& servers);

// For a store of several servers: adds a finding of one of them, which it names if it is
// a problem, or keeps the one of the same check that is there, if that is as severe.
void add_worst(std::vector<Finding>& findings, Finding found, const std::string& server);

// "a, b"; of more than `most`: "a, b, 3 more".
std::string listed(const std::vector<std::string>& words, std::size_t most = 1000);

}  // namespace dlock
