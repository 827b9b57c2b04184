#include "store/redis_cluster/health.hpp"

#include "store/round_trips.hpp"
#include "util/text.hpp"

namespace dlock::redis_cluster {
namespace {

using Level = Finding::Level;
using std::chrono::microseconds;

// From the detection of a dead primary until its replica accepts writes.
constexpr milliseconds election{1500};

// Fences are based on clocks: they increase if the clocks differ by less than a failover
// takes.
constexpr microseconds close_enough{1'000'000};

Finding failover(const ClusterFacts& facts) {
  if (!facts.node_timeout) {
    return {"failover", Level::info, "not checked: no permission for CONFIG GET", "",
            false};
  }
  return failover_finding(
      *facts.node_timeout + election,
      "detected after " + for_people(*facts.node_timeout) + " (cluster-node-timeout); ",
      "a failover",
      "CONFIG SET cluster-node-timeout 5000 on each member, or a longer --ttl");
}

Finding clocks(const ClusterFacts& facts) {
  const auto spread = redis::clock_spread(facts.primaries);
  if (!spread || *spread < close_enough) {
    return {"clocks", Level::ok, "all primaries agree", ""};
  }
  return {"clocks", Level::warning,
          "the primaries' clocks differ by " + for_people(*spread),
          "synchronize the clocks of all servers (chrony, ntpd)"};
}

}  // namespace

std::vector<Finding> findings_of(const ClusterFacts& facts) {
  std::vector<Finding> findings;
  if (facts.failure) {
    findings.push_back({"reachable", Level::error, facts.failure->what(),
                        "name several members in the store URL, and check that they run "
                        "and accept connections from this machine"});
    return findings;
  }
  std::vector<std::string> names;
  for (const auto& primary : facts.primaries) names.push_back(primary.server);
  findings.push_back({"primaries", Level::ok,
                      std::to_string(facts.primaries.size()) +
                          ", serving all slots: " + redis::listed(names),
                      ""});
  findings.push_back(failover(facts));
  findings.push_back(clocks(facts));
  for (const auto& primary : facts.primaries) {
    for (auto& found : redis::findings_of(primary)) {
      redis::add_worst(findings, std::move(found), primary.server);
    }
  }
  return findings;
}

}  // namespace dlock::redis_cluster
