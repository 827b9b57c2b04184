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

// The shortest lease that `is_enough`.
template <typename IsEnough>
milliseconds smallest_ttl(IsEnough is_enough) {
  constexpr milliseconds step{500};  // and the least that --ttl takes
  auto ttl = step;
  while (!is_enough(ttl)) ttl += step;
  return ttl;
}

void clock(const ServerFacts& facts, CheckReport say) {
  // A difference that does not matter in printed times.
  constexpr microseconds close_enough = std::chrono::seconds(2);
  const auto ahead = facts.clock_ahead;
  if (!ahead) return say.not_checked("the server does not report its time");
  const auto difference = std::chrono::abs(*ahead);
  if (difference < close_enough) return say.ok("agrees with this machine's");
  say.info(for_people(difference) + (ahead->count() < 0 ? " behind" : " ahead of") +
               " this machine's",
           "harmless: locks use the server's clock only; the times in status and history "
           "are the server's");
}

void round_trip(const ServerFacts& facts, Examination& examination, CheckReport say) {
  const auto median = round_trip_of(facts);
  if (!median) return;
  // How long one operation on the store may have to wait for replies: some take longer.
  const auto budget = std::chrono::ceil<milliseconds>(*median * facts.trips_to_renew * 2);
  const auto ttl = smallest_ttl([&](milliseconds lease) {
    return lease >= budget * 10 &&
           LeaseTiming(lease, usual_kill_after, budget).is_sound();
  });
  examination.round_trip = median;
  examination.smallest_ttl = std::max(ttl, facts.least_ttl);
  const auto message =
      joined(shown(*median), ", the median of ", facts.round_trips.size(),
             "; fast enough for a --ttl of ", for_people(ttl), " or more");
  if (budget <= facts.store_timeout) return say.ok(message);
  say.warning(message, "use a nearer server, or --store-timeout " + for_people(budget) +
                           " and a --ttl of " + for_people(ttl));
}

}  // namespace

void judge_server(const ServerFacts& facts, Examination& examination) {
  clock(facts, {"clock", examination.findings});
  round_trip(facts, examination, {"round-trip", examination.findings});
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

void judge_refusal(const Failure& failure, CheckReport& say, const std::string& also) {
  if (failure.kind() != Failure::Kind::rejected) {
    return say.error(failure.what(),
                     "correct the store URL, or the login and TLS options");
  }
  say.error(failure.what(),
            "check the user, the password (--user, --password-file, DLOCK_PASSWORD) and, "
            "over TLS, the certificates (--tls-ca, --tls-cert, --tls-key)" +
                also);
}

Version version_in(std::string_view text) {
  Version version{};
  for (auto& part : version) {
    const auto number = take_number<int>(text);
    if (!number) break;
    part = *number;
    text.remove_prefix(std::min<std::size_t>(text.size(), 1));
  }
  return version;
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

void judge_clocks(const std::vector<ServerFacts>& servers, CheckReport& say) {
  std::vector<microseconds> clocks;
  for (const auto& one : servers) {
    if (one.clock_ahead) clocks.push_back(*one.clock_ahead);
  }
  if (clocks.empty()) return say.not_checked("no server reports its time");
  const auto [least, most] = std::ranges::minmax_element(clocks);
  const auto spread = *most - *least;
  if (spread < std::chrono::seconds(1)) return say.ok("all servers agree");
  say.warning("the servers' clocks differ by " + for_people(spread) +
                  ": leases can end too early or too late",
              "synchronize the clocks of all servers by slewing (chrony, ntpd)");
}

void judge_failover(std::optional<milliseconds> detection, const std::string& setting,
                    const std::string& advice, CheckReport& say, milliseconds election) {
  if (!detection) return say.not_checked("no server reports " + setting);
  // A run survives it even if it begins just before a renewal is due.
  const auto least = smallest_ttl([&](milliseconds ttl) {
    const auto budget = std::min(ServerFacts().store_timeout, ttl / 10);
    const LeaseTiming timing(ttl, usual_kill_after, budget);
    return ttl - timing.renew_every() - timing.drift() - timing.grace() -
               timing.margin() >=
           *detection + election;
  });
  const auto message =
      joined("detected after ", for_people(*detection), " (", setting, "); a --ttl of ",
             for_people(least), " or more survives a failover");
  if (least <= usual_ttl) return say.ok(message);
  say.warning(message + ", the default of 30s does not", advice);
}

}  // namespace dlock
