#include "store/redis_sentinel/health.hpp"

#include <algorithm>

#include "store/redis/health.hpp"
#include "store/round_trips.hpp"
#include "util/text.hpp"

namespace dlock::redis_sentinel {
namespace {

using Level = Finding::Level;

// From the detection of a dead primary until the next one accepts writes: the sentinels'
// vote, which begins up to a second late, and the promotion.
constexpr milliseconds election{1300};

// Fences are based on clocks: they increase if the clocks differ by less than a failover
// takes.
constexpr std::chrono::microseconds close_enough{1'000'000};

Finding sentinels(const SentinelFacts& facts) {
  // They have one vote, so this can also be why no primary is elected.
  if (const auto twins = same_sentinel(facts.names, facts.ballots)) {
    return {"sentinels", Level::error, twins->what(),
            "name each sentinel once in the store URL"};
  }
  const auto primary = elected(facts.ballots);
  if (!primary) {
    return {"sentinels", Level::error,
            no_primary_elected(facts.master, facts.names, facts.ballots).what(),
            "in the store URL, name all sentinels, and the primary as `sentinel monitor` "
            "does"};
  }
  const auto all = facts.ballots.size();
  const auto agree = static_cast<std::size_t>(std::count_if(
      facts.ballots.begin(), facts.ballots.end(),
      [&](const Ballot& one) { return one.vote && one.vote->primary == primary; }));
  auto message = std::to_string(agree) + " of " + std::to_string(all) + " name " +
                 printable(primary->host, 200) + ":" + std::to_string(primary->port);
  if (agree == all && all < 3) {
    return {"sentinels", Level::warning, message + ": too few to survive the loss of one",
            "run three or more, each on its own machine"};
  }
  if (agree == all) return {"sentinels", Level::ok, message, ""};
  for (std::size_t i = 0; i < all; ++i) {
    const auto& ballot = facts.ballots[i];
    if (ballot.failure) {
      message += "; " + std::string(ballot.failure->what());
    } else if (!ballot.vote || ballot.vote->primary != primary) {
      message += "; " + facts.names[i] + " does not";
    }
  }
  return {"sentinels", Level::warning, message,
          "locks work while more than half agree: check the logs of the others"};
}

Finding failover(const SentinelFacts& facts) {
  if (!facts.down_after) {
    return {"failover", Level::info, "not checked: no sentinel reports its settings", "",
            false};
  }
  return failover_finding(
      *facts.down_after + election,
      "detected after " + for_people(*facts.down_after) + " (down-after-milliseconds); ",
      "a failover",
      "SENTINEL SET " + printable_command({facts.master}, 200) +
          " down-after-milliseconds 5000, or a longer --ttl");
}

Finding replicas(const SentinelFacts& facts) {
  const auto up = replicas_up(*elected(facts.ballots), facts.ballots);
  if (up > 0) {
    return {"replicas-up", Level::ok,
            std::to_string(up) +
                " according to most sentinels; --replicas all waits for them",
            ""};
  }
  return {"replicas-up", Level::warning,
          "none according to most sentinels: no failover is possible, and --replicas all "
          "grants nothing",
          "restore a replica"};
}

Finding tilt(const SentinelFacts& facts) {
  if (facts.tilted.empty()) return {"tilt", Level::ok, "none", ""};
  return {"tilt", Level::warning,
          redis::listed(facts.tilted) + " is in TILT mode and performs no failover",
          "check whether its machine's clock jumps or the machine is overloaded"};
}

Finding clocks(const SentinelFacts& facts) {
  for (const auto& [name, ahead] : facts.clocks_ahead) {
    const auto off = ahead.count() < 0 ? -ahead : ahead;
    if (off < close_enough) continue;
    return {"replica-clocks", Level::warning,
            name + " is " + for_people(off) +
                (ahead.count() < 0 ? " behind" : " ahead of") +
                " the primary: after a failover, leases end too late or too early",
            "synchronize the clocks of all servers (chrony, ntpd)"};
  }
  if (facts.clocks_ahead.empty()) {
    return {"replica-clocks", Level::info, "not checked: no replica reports its time", "",
            false};
  }
  return {"replica-clocks", Level::ok, "agree with the primary's", ""};
}

}  // namespace

std::vector<Finding> findings_of(const SentinelFacts& facts) {
  std::vector<Finding> findings{sentinels(facts)};
  if (!elected(facts.ballots)) return findings;
  for (const auto check : {failover, replicas, tilt, clocks}) {
    findings.push_back(check(facts));
  }
  return findings;
}

}  // namespace dlock::redis_sentinel
