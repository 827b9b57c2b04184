// What `dlock doctor` checks: for each kind of store a table, whose order is that of the
// findings; and judgments that stores share.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lock/store.hpp"
#include "store/store_url.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"
#include "util/text.hpp"

namespace dlock {

// Takes what a check says, under its name. If it says nothing, it does not apply.
class CheckReport {
 public:
  using Level = Finding::Level;

  CheckReport(const char* check, std::vector<Finding>& findings)
      : check_(check), findings_(findings) {}

  void level(Level level, std::string message, std::string advice = "") {
    findings_.push_back({check_, level, std::move(message), std::move(advice)});
  }
  template <typename... Parts>
  void ok(const Parts&... message) {
    level(Level::ok, joined(message...));
  }
  void info(std::string message, std::string advice = "") {
    level(Level::info, std::move(message), std::move(advice));
  }
  void warning(std::string message, std::string advice = "") {
    level(Level::warning, std::move(message), std::move(advice));
  }
  void error(std::string message, std::string advice) {
    level(Level::error, std::move(message), std::move(advice));
  }
  // The check could not be made: "not checked: WHY".
  void not_checked(const std::string& why, std::string advice = "") {
    info("not checked: " + why, std::move(advice));
    findings_.back().is_made = false;
  }

 private:
  const char* check_;
  std::vector<Finding>& findings_;
};

// A row of a table of checks.
template <typename Facts>
struct Check {
  const char* name;
  void (*judge)(const Facts& facts, CheckReport& say);
  // What the store is asked for, in its language, besides what it is asked for anyway.
  std::string_view question = {};
  // Whether no check behind it is made once there is an error.
  bool is_basis = false;
};

// What doctor needs to know of a server, of a member of a group of them, or of such a
// group; fields are empty where nothing is known.
struct ServerFacts {
  std::string server;                                    // its address, for messages
  std::optional<Failure> failure;                        // why it did not reply
  std::optional<std::chrono::microseconds> clock_ahead;  // of this machine's
  std::vector<std::chrono::nanoseconds> round_trips;
  int trips_to_renew = 3;            // round trips of a renewal that has to connect first
  milliseconds store_timeout{2000};  // of a run
  milliseconds least_ttl{0};         // that the store takes
};
template <typename Facts>
std::vector<ServerFacts> servers_of(const std::vector<Facts>& servers) {
  return {servers.begin(), servers.end()};
}

// The checks that are the same for all servers: of the clock and the round trip.
void judge_server(const ServerFacts& facts, Examination& examination);

// What the checks of the table say, and behind them, for a server, judge_server().
template <typename Facts, std::size_t count>
Examination judged(const Check<Facts> (&checks)[count], const Facts& facts) {
  Examination examination;
  for (const auto& check : checks) {
    CheckReport say(check.name, examination.findings);
    check.judge(facts, say);
    const bool has_error = worst_of(examination.findings) == Finding::Level::error;
    if (check.is_basis && has_error) return examination;
  }
  if constexpr (std::is_base_of_v<ServerFacts, Facts>) judge_server(facts, examination);
  return examination;
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

// A login that was refused. `also`: what else to check besides the options.
void judge_refusal(const Failure& failure, CheckReport& say,
                   const std::string& also = "");

// Major, minor and patch of "3.4.23"; 0 for each that is missing.
using Version = std::array<int, 3>;
Version version_in(std::string_view text);

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

// Whether the clocks agree to a second: a failover takes longer.
void judge_clocks(const std::vector<ServerFacts>& servers, CheckReport& say);

// Which leases outlast a failover: that is detected after this long, which `setting`
// sets, and until the successor accepts writes.
void judge_failover(std::optional<milliseconds> detection, const std::string& setting,
                    const std::string& advice, CheckReport& say,
                    milliseconds election = milliseconds(1500));

// Adds the durations of calls, until enough are measured or the time is up.
template <typename Work>
asio::awaitable<void> measure(ServerFacts& facts, Clock::time_point until, Work work) {
  constexpr std::size_t enough = 20;
  for (std::size_t i = 0; i < enough && Clock::now() < until; ++i) {
    const auto began = Clock::now();
    co_await work();
    facts.round_trips.emplace_back(Clock::now() - began);
  }
}

}  // namespace dlock
