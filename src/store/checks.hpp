// What `dlock doctor` checks: for each kind of store a table, whose order is that of the
// findings, and behind it the checks of all stores; and judgments that they share.
#pragma once

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

namespace dlock {

// The parts in a row, numbers as digits.
template <typename... Parts>
std::string joined(const Parts&... parts) {
  std::string text;
  const auto add = [&](const auto& part) {
    if constexpr (requires { std::to_string(part); }) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text;
}

// "1 lock", "2 locks"
std::string counted(std::int64_t count, const std::string& word);

// "a, b"; of more than `most`: "a, b, 3 more".
std::string listed(const std::vector<std::string>& words, std::size_t most = 1000);

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
  // Whether the checks behind it can only be made if it finds no error.
  bool is_basis = false;
};

// What the checks of all stores need of a server, of a member of a group of them, or of
// such a group; fields are empty where nothing is known.
struct ServerFacts {
  std::string server;                                    // its address, for messages
  std::optional<Failure> failure;                        // why it did not reply
  bool has_clock = true;                                 // that alone ends leases
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

// The table of the checks of all stores.
std::span<const Check<ServerFacts>> common_checks();

// Adds what the checks say, and for a server what the common ones say. Ends behind one
// that is the basis of the others and finds an error; false then.
template <typename Facts>
bool judge(std::span<const Check<Facts>> checks, const Facts& facts,
           std::vector<Finding>& findings) {
  for (const auto& check : checks) {
    const auto before = findings.size();
    CheckReport say(check.name, findings);
    check.judge(facts, say);
    const bool has_spoken = findings.size() > before;
    const bool is_error = has_spoken && findings.back().level == Finding::Level::error;
    if (check.is_basis && is_error) return false;
  }
  if constexpr (std::is_base_of_v<ServerFacts, Facts> &&
                !std::is_same_v<ServerFacts, Facts>) {
    judge<ServerFacts>(common_checks(), facts, findings);
  }
  return true;
}

template <typename Facts, std::size_t count>
std::vector<Finding> judged(const Check<Facts> (&checks)[count], const Facts& facts) {
  std::vector<Finding> findings;
  judge<Facts>(checks, facts, findings);
  return findings;
}

// With the round trip of the slowest of these servers, and the shortest lease for it.
Examination examination_of(std::vector<Finding> findings,
                           const std::vector<ServerFacts>& servers);

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

// Clocks that differ by less are in order: a failover takes longer.
constexpr std::chrono::microseconds clocks_agree_within{1'000'000};

// Whether the clocks of `who` ("servers") agree, because fences and the order of a queue
// depend on them. `harm` is added if they do not.
void judge_clocks(const std::string& who, const std::vector<ServerFacts>& servers,
                  const std::string& harm, CheckReport& say);

// "3s behind" or "3s ahead of".
std::string distance_of(std::chrono::microseconds ahead);

// A failover that takes this long: "DETECTED a --ttl of 6.0s or more survives WHAT".
void judge_failover(milliseconds failover, const std::string& detected,
                    const std::string& what, std::string advice, CheckReport& say);

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
