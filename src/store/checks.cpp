#include "store/checks.hpp"

#include <algorithm>
#include <cstdio>

#include "lock/lease.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

using std::chrono::microseconds;

constexpr milliseconds usual_ttl{30'000};
constexpr milliseconds usual_kill_after{5000};
constexpr milliseconds step{500};  // of the values that are advised

std::string shown(microseconds round_trip) {
  char text[32];
  const double ms = static_cast<double>(round_trip.count()) / 1000;
  std::snprintf(text, sizeof text, ms < 10 ? "%.2f ms" : "%.0f ms", ms);
  return text;
}

// Nothing if none was measured.
std::optional<microseconds> round_trip_of(const ServerFacts& facts) {
  auto trips = facts.round_trips;
  if (trips.empty()) return std::nullopt;
  const auto median = trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 2);
  std::nth_element(trips.begin(), median, trips.end());
  return std::chrono::ceil<microseconds>(*median);
}

// How long one operation on the store may have to wait for replies.
milliseconds needed_budget(microseconds round_trip, int trips) {
  constexpr int times_median = 2;  // some take longer
  return std::chrono::ceil<milliseconds>(round_trip * trips * times_median);
}

// The shortest lease that leaves this budget for an operation, by the rules of
// LeaseTiming.
milliseconds smallest_ttl_for(milliseconds budget) {
  constexpr milliseconds least{500};  // that --ttl takes
  auto ttl = std::max(least, (budget * 10 + step - milliseconds(1)) / step * step);
  while (!LeaseTiming(ttl, usual_kill_after, budget).is_sound()) ttl += step;
  return ttl;
}

// The shortest lease with which a run survives a failover of this length that begins just
// before a renewal is due.
milliseconds smallest_ttl_to_outlive(milliseconds failover) {
  for (auto ttl = step;; ttl += step) {
    const auto budget = std::min(ServerFacts().store_timeout, ttl / 10);
    const LeaseTiming timing(ttl, usual_kill_after, budget);
    const auto left =
        ttl - timing.renew_every() - timing.drift() - timing.grace() - timing.margin();
    if (left >= failover) return ttl;
  }
}

void clock(const ServerFacts& facts, CheckReport& say) {
  // A difference that does not matter in printed times.
  constexpr microseconds close_enough = std::chrono::seconds(2);
  if (!facts.has_clock) return;
  const auto ahead = facts.clock_ahead;
  if (!ahead) return say.not_checked("the server does not report its time");
  if (std::chrono::abs(*ahead) < close_enough) {
    return say.ok("agrees with this machine's");
  }
  say.info(distance_of(*ahead) + " this machine's",
           "harmless: locks use the server's clock only; the times in status and history "
           "are the server's");
}

void round_trip(const ServerFacts& facts, CheckReport& say) {
  const auto median = round_trip_of(facts);
  if (!median) return;
  const auto budget = needed_budget(*median, facts.trips_to_renew);
  const auto ttl = for_people(smallest_ttl_for(budget));
  const auto message =
      joined(shown(*median), ", the median of ", facts.round_trips.size(),
             "; fast enough for a --ttl of ", ttl, " or more");
  if (budget <= facts.store_timeout) return say.ok(message);
  say.warning(message, "use a nearer server, or --store-timeout " + for_people(budget) +
                           " and a --ttl of " + ttl);
}

constexpr Check<ServerFacts> checks[] = {{"clock", clock}, {"round-trip", round_trip}};

}  // namespace

std::string counted(std::int64_t count, const std::string& word) {
  return joined(count, " ", word, count == 1 ? "" : "s");
}

std::string listed(const std::vector<std::string>& words, std::size_t most) {
  std::string list;
  for (std::size_t i = 0; i < std::min(words.size(), most); ++i) {
    list += (i > 0 ? ", " : "") + words[i];
  }
  return words.size() > most ? joined(list, ", ", words.size() - most, " more") : list;
}

std::span<const Check<ServerFacts>> common_checks() { return checks; }

Examination examination_of(std::vector<Finding> findings,
                           const std::vector<ServerFacts>& servers) {
  Examination examination;
  examination.findings = std::move(findings);
  for (const auto& one : servers) {
    const auto trip = round_trip_of(one);
    if (!trip) continue;
    const auto budget = needed_budget(*trip, one.trips_to_renew);
    const auto ttl = std::max(smallest_ttl_for(budget), one.least_ttl);
    examination.round_trip = std::max(examination.round_trip.value_or(*trip), *trip);
    examination.smallest_ttl = std::max(examination.smallest_ttl.value_or(ttl), ttl);
  }
  return examination;
}

Failure let_pass(const Failure& failure) {
  if (failure.kind() == Failure::Kind::exhausted ||
      failure.kind() == Failure::Kind::interrupted) {
    throw failure;
  }
  return failure;
}

bool is_refusal(const Failure& failure) {
  return failure.kind() == Failure::Kind::rejected ||
         failure.kind() == Failure::Kind::misconfigured;
}

void judge_reachable(const std::vector<ServerFacts>& servers, std::size_t needed,
                     const std::string& settings, CheckReport& say, bool can_lock) {
  const auto advice =
      "check that the server runs, that the URL has the right host and port or socket, "
      "and that the server accepts connections from this machine (" +
      settings + ", firewall)";
  if (servers.size() == 1) {
    const auto& failure = servers.front().failure;
    if (!failure) return say.ok(servers.front().server);
    if (!is_refusal(*failure)) say.error(failure->what(), advice);
    return;
  }
  std::size_t there = 0;
  std::string reasons;
  for (const auto& one : servers) {
    there += one.failure ? 0 : 1;
    if (one.failure) reasons += joined("; ", one.failure->what());
  }
  const auto message =
      joined(there, " of ", servers.size(),
             needed > 1 ? joined(" reply, ", needed, " required") : "", reasons);
  if (there == servers.size()) return say.ok(message);
  if (there < needed) return say.error(message, advice);
  say.warning(message, can_lock ? "locks work without the others: restore them"
                                : "restore the others");
}

void judge_refusal(const Failure& failure, const std::string& also, CheckReport& say) {
  if (failure.kind() != Failure::Kind::rejected) {
    return say.error(failure.what(),
                     "correct the store URL, or the login and TLS options");
  }
  say.error(failure.what(),
            "check the user, the password (--user, --password-file, DLOCK_PASSWORD) and, "
            "over TLS, the certificates (--tls-ca, --tls-cert, --tls-key)" +
                also);
}

void judge_version(const std::string& version, bool is_old, const std::string& needed,
                   CheckReport& say) {
  if (!is_old) return say.ok(version);
  say.error(version + " is too old", "upgrade: dlock needs " + needed);
}

void judge_permissions(const std::string& user, const std::string& missing,
                       const std::string& advice, CheckReport& say) {
  if (!missing.empty()) return say.error("user " + user + " " + missing, advice);
  say.ok("user ", user, " has all permissions that locks need");
}

void judge_fences(const FarFences& fences, CheckReport& say) {
  if (fences.empty()) return;
  std::vector<std::string> all;
  for (const auto& [name, fence] : fences) {
    all.push_back(printable(name, 300) + " has fence " + printable(fence, 40));
  }
  say.warning(listed(all, 3) + ": implausibly far ahead of the clock",
              "see 'A fence far ahead of the clock' in docs/operating.md");
}

void judge_work(const std::string& why, CheckReport& say, const std::string& advice) {
  say.error("the server grants no locks now: " + printable(why, 200), advice);
}

void judge_clocks(const std::string& who, const std::vector<ServerFacts>& servers,
                  const std::string& harm, CheckReport& say) {
  std::vector<microseconds> clocks;
  for (const auto& one : servers) {
    if (one.clock_ahead) clocks.push_back(*one.clock_ahead);
  }
  if (clocks.empty()) return say.not_checked("no server reports its time");
  const auto [least, most] = std::ranges::minmax_element(clocks);
  const auto spread = *most - *least;
  if (spread < clocks_agree_within) return say.ok("all ", who, " agree");
  say.warning("the " + who + "' clocks differ by " + for_people(spread) + harm,
              synchronize_clocks);
}

std::string distance_of(microseconds ahead) {
  return for_people(std::chrono::abs(ahead)) +
         (ahead.count() < 0 ? " behind" : " ahead of");
}

void judge_failover(milliseconds failover, const std::string& detected,
                    const std::string& what, std::string advice, CheckReport& say) {
  const auto least = smallest_ttl_to_outlive(failover);
  const auto message =
      detected + "a --ttl of " + for_people(least) + " or more survives " + what;
  if (least <= usual_ttl) return say.ok(message);
  say.warning(message + ", the default of 30s does not", std::move(advice));
}

}  // namespace dlock
