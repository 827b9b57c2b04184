#include "store/checks.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "lock/lease.hpp"
#include "util/text.hpp"

namespace dlock {

using std::chrono::microseconds;

namespace {

// The default budget of an operation.
constexpr milliseconds usual_budget{2000};

std::string shown(microseconds round_trip) {
  char text[32];
  const double ms = static_cast<double>(round_trip.count()) / 1000;
  std::snprintf(text, sizeof text, ms < 10 ? "%.2f ms" : "%.0f ms", ms);
  return text;
}

}  // namespace

std::optional<microseconds> median_of(std::vector<std::chrono::nanoseconds> round_trips) {
  if (round_trips.empty()) return std::nullopt;
  const auto middle =
      round_trips.begin() + static_cast<std::ptrdiff_t>(round_trips.size() / 2);
  std::nth_element(round_trips.begin(), middle, round_trips.end());
  return std::chrono::ceil<microseconds>(*middle);
}

milliseconds needed_budget(microseconds round_trip, int trips) {
  constexpr int times_median = 2;  // some take longer
  return std::chrono::ceil<milliseconds>(round_trip * trips * times_median);
}

milliseconds smallest_ttl_for(milliseconds budget) {
  constexpr milliseconds least{500};  // that --ttl takes
  constexpr milliseconds step{500};
  constexpr milliseconds longest_grace{5000};
  auto ttl = std::max(least, (budget * 10 + step - milliseconds(1)) / step * step);
  while (!LeaseTiming(ttl, longest_grace, budget).is_sound()) ttl += step;
  return ttl;
}

milliseconds smallest_ttl_to_outlive(milliseconds failover) {
  constexpr milliseconds step{500};
  constexpr milliseconds kill_after{5000};  // the usual one
  auto ttl = step;
  for (;; ttl += step) {
    const LeaseTiming timing(ttl, kill_after, std::min(milliseconds(2000), ttl / 10));
    const auto left =
        ttl - timing.renew_every() - timing.drift() - timing.grace() - timing.margin();
    if (left >= failover) return ttl;
  }
}

Finding failover_finding(milliseconds failover, const std::string& detected,
                         const std::string& what, std::string advice) {
  constexpr milliseconds usual_ttl{30'000};
  const auto least = smallest_ttl_to_outlive(failover);
  const auto message =
      detected + "a --ttl of " + for_people(least) + " or more survives " + what;
  if (least <= usual_ttl) return {"failover", Finding::Level::ok, message, ""};
  return {"failover", Finding::Level::warning, message + ", the default of 30s does not",
          std::move(advice)};
}

std::optional<Finding> round_trip_finding(
    const std::vector<std::chrono::nanoseconds>& round_trips, int trips_to_renew) {
  const auto median = median_of(round_trips);
  if (!median) return std::nullopt;
  const auto budget = needed_budget(*median, trips_to_renew);
  const auto ttl = for_people(smallest_ttl_for(budget));
  const auto message = shown(*median) + ", the median of " +
                       std::to_string(round_trips.size()) +
                       "; fast enough for a --ttl of " + ttl + " or more";
  if (budget <= usual_budget)
    return Finding{"round-trip", Finding::Level::ok, message, ""};
  return Finding{"round-trip", Finding::Level::warning, message,
                 "use a nearer server, or --store-timeout " + for_people(budget) +
                     " and a --ttl of " + ttl};
}

Finding not_checked(std::string check, const std::string& why, std::string advice) {
  return {std::move(check), Finding::Level::info, "not checked: " + why,
          std::move(advice), false};
}

Failure let_pass(const Failure& failure) {
  if (failure.kind() == Failure::Kind::exhausted ||
      failure.kind() == Failure::Kind::interrupted) {
    throw failure;
  }
  return failure;
}

Finding refusal_finding(const Failure& failure, std::string login_advice,
                        std::string advice) {
  switch (failure.kind()) {
    case Failure::Kind::rejected:
      return {"login", Finding::Level::error, failure.what(), std::move(login_advice)};
    case Failure::Kind::misconfigured:
      return {"login", Finding::Level::error, failure.what(),
              "correct the store URL, or the login and TLS options"};
    case Failure::Kind::unreachable:
    case Failure::Kind::unsupported:
    case Failure::Kind::exhausted:
    case Failure::Kind::interrupted: break;
  }
  return {"reachable", Finding::Level::error, failure.what(), std::move(advice)};
}

Finding reached_finding(std::string check, const Reached& reached) {
  const auto& failures = reached.failures;
  const auto there = static_cast<std::size_t>(
      std::count_if(failures.begin(), failures.end(),
                    [](const auto& failure) { return !failure.has_value(); }));
  auto message =
      std::to_string(there) + " of " + std::to_string(failures.size()) + reached.what;
  if (there == failures.size()) {
    return {std::move(check), Finding::Level::ok, message, ""};
  }
  for (const auto& failure : failures) {
    if (failure) message += "; " + std::string(failure->what());
  }
  if (there < reached.needed) {
    return {std::move(check), Finding::Level::error, message, reached.advice_if_too_few};
  }
  return {std::move(check), Finding::Level::warning, message, reached.advice};
}

Finding clocks_finding(const std::string& who, std::optional<microseconds> spread,
                       const std::string& harm, std::string advice) {
  if (!spread) return not_checked("clocks", "no server reports its time");
  if (*spread < clocks_agree_within) {
    return {"clocks", Finding::Level::ok, "all " + who + " agree", ""};
  }
  return {"clocks", Finding::Level::warning,
          "the " + who + "' clocks differ by " + for_people(*spread) + harm,
          std::move(advice)};
}

Finding clock_finding(std::optional<microseconds> ahead) {
  // A difference that does not matter in printed times.
  constexpr microseconds close_enough = std::chrono::seconds(2);
  if (!ahead) return not_checked("clock", "the server does not report its time");
  const auto distance = ahead->count() < 0 ? -*ahead : *ahead;
  if (distance < close_enough) {
    return {"clock", Finding::Level::ok, "agrees with this machine's", ""};
  }
  return {"clock", Finding::Level::info, distance_of(*ahead) + " this machine's",
          "harmless: locks use the server's clock only; the times in status and history "
          "are the server's"};
}

std::optional<microseconds> spread_of(const std::vector<microseconds>& clocks) {
  if (clocks.empty()) return std::nullopt;
  const auto [least, most] = std::minmax_element(clocks.begin(), clocks.end());
  return *most - *least;
}

std::string distance_of(microseconds ahead) {
  return for_people(ahead.count() < 0 ? -ahead : ahead) +
         (ahead.count() < 0 ? " behind" : " ahead of");
}

Examination examination_of(std::vector<Finding> findings,
                           std::optional<microseconds> slowest, int trips_to_renew,
                           milliseconds least_ttl) {
  Examination examination;
  examination.findings = std::move(findings);
  examination.round_trip = slowest;
  if (slowest) {
    examination.smallest_ttl =
        std::max(smallest_ttl_for(needed_budget(*slowest, trips_to_renew)), least_ttl);
  }
  return examination;
}

void add_worst(std::vector<Finding>& findings, Finding found, const std::string& server) {
  const auto same =
      std::find_if(findings.begin(), findings.end(),
                   [&](const Finding& other) { return other.check == found.check; });
  if (found.level > Finding::Level::info) found.message = server + ": " + found.message;
  if (same == findings.end()) {
    findings.push_back(std::move(found));
  } else if (found.level > same->level) {
    *same = std::move(found);
  }
}

std::string listed(const std::vector<std::string>& words) {
  std::string list;
  for (const auto& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

}  // namespace dlock
