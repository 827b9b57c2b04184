#include "store/redis_cluster/health.hpp"

#include <algorithm>

#include "store/round_trips.hpp"
#include "util/text.hpp"

namespace dlock::redis_cluster {
namespace {

using Level = Finding::Level;
using std::chrono::microseconds;

constexpr milliseconds usual_ttl{30'000};

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
  const auto least = smallest_ttl_to_outlive(*facts.node_timeout + election);
  const auto message = "detected after " + for_people(*facts.node_timeout) +
                       " (cluster-node-timeout); a --ttl of " + for_people(least) +
                       " or more survives a failover";
  if (least <= usual_ttl) return {"failover", Level::ok, message, ""};
  return {"failover", Level::warning, message + ", the default of 30s does not",
          "CONFIG SET cluster-node-timeout 5000 on each member, or a longer --ttl"};
}

Finding clocks(const ClusterFacts& facts) {
  std::optional<microseconds> first;
  std::optional<microseconds> last;
  for (const auto& primary : facts.primaries) {
    if (!primary.clock_ahead) continue;
    first = std::min(first.value_or(*primary.clock_ahead), *primary.clock_ahead);
    last = std::max(last.value_or(*primary.clock_ahead), *primary.clock_ahead);
  }
  if (!first || *last - *first < close_enough) {
    return {"clocks", Level::ok, "all primaries agree", ""};
  }
  return {"clocks", Level::warning,
          "the primaries' clocks differ by " + for_people(*last - *first),
          "synchronize the clocks of all servers (chrony, ntpd)"};
}

// Keeps the most severe finding of each check, with the name of its server.
void add(std::vector<Finding>& findings, Finding found, const std::string& server) {
  const auto same =
      std::find_if(findings.begin(), findings.end(),
                   [&](const Finding& other) { return other.check == found.check; });
  const bool is_wrong = found.level == Level::warning || found.level == Level::error;
  if (is_wrong) found.message = server + ": " + found.message;
  if (same == findings.end()) {
    findings.push_back(std::move(found));
  } else if (found.level > same->level) {
    *same = std::move(found);
  }
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
  std::string names;
  for (const auto& primary : facts.primaries) {
    names += (names.empty() ? "" : ", ") + primary.server;
  }
  findings.push_back(
      {"primaries", Level::ok,
       std::to_string(facts.primaries.size()) + ", serving all slots: " + names, ""});
  findings.push_back(failover(facts));
  findings.push_back(clocks(facts));
  for (const auto& primary : facts.primaries) {
    for (auto& found : redis::findings_of(primary)) {
      add(findings, std::move(found), primary.server);
    }
  }
  return findings;
}

}  // namespace dlock::redis_cluster
