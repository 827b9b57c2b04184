// Examines the members of a cluster. It changes nothing there.
#include <algorithm>

#include "store/checks.hpp"
#include "store/redis/redis_connection.hpp"
#include "store/redis/redis_health.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis_cluster/cluster_route.hpp"
#include "store/store_url.hpp"
#include "util/text.hpp"

namespace dlock::redis_cluster {
namespace {

// What its members have reported.
struct ClusterMemberFacts {
  std::optional<Failure> failure;  // why the primaries are not known
  std::vector<redis::RedisFacts> primaries;
  // The longest time after which a member considers another one dead.
  std::optional<milliseconds> node_timeout;
};

using Level = Finding::Level;
using std::chrono::microseconds;

// From the detection of a dead primary until its replica accepts writes.
constexpr milliseconds election{1500};

Finding failover(const ClusterMemberFacts& facts) {
  if (!facts.node_timeout) {
    return not_checked("failover", "no permission for CONFIG GET");
  }
  return failover_finding(
      *facts.node_timeout + election,
      "detected after " + for_people(*facts.node_timeout) + " (cluster-node-timeout); ",
      "a failover",
      "CONFIG SET cluster-node-timeout 5000 on each member, or a longer --ttl");
}

std::optional<milliseconds> node_timeout_of(const redis::RedisFacts& facts) {
  const auto found = facts.config.find("cluster-node-timeout");
  if (found == facts.config.end()) return std::nullopt;
  return redis::milliseconds_from(found->second);
}

// One finding for each check of all servers together; a problem of one server names it.
std::vector<Finding> findings_of(const ClusterMemberFacts& facts) {
  std::vector<Finding> findings;
  if (facts.failure) {
    findings.push_back({"reachable", Level::error, facts.failure->what(),
                        "name several members in the store URL, and check that they run "
                        "and accept connections from this machine"});
    return findings;
  }
  std::vector<std::string> names;
  for (const auto& primary : facts.primaries) names.push_back(primary.server);
  findings.push_back(
      {"primaries", Level::ok,
       std::to_string(facts.primaries.size()) + ", serving all slots: " + listed(names),
       ""});
  findings.push_back(failover(facts));
  const auto spread = redis::clock_spread(facts.primaries).value_or(microseconds(0));
  findings.push_back(clocks_finding(
      "primaries", spread, "", "synchronize the clocks of all servers (chrony, ntpd)"));
  redis::add_findings_of(facts.primaries, findings);
  return findings;
}

}  // namespace

asio::awaitable<Examination> examine(const StoreUrl& url, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup) {
  ClusterMemberFacts facts;
  ClusterRoute route(context, url, timeout);
  std::vector<redis::Node*> primaries;
  try {
    primaries = co_await route.all(route.budget_end(), wakeup);
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::exhausted) throw;
    facts.failure = failure;
  }
  std::vector<redis::Target> targets;
  for (auto* primary : primaries) targets.push_back(primary->target());
  facts.primaries = co_await redis::facts_of_all(
      context, std::move(targets), name_space, timeout, wakeup, redis::needed_in_cluster);
  for (auto& primary : facts.primaries) {
    primary.is_in_cluster = true;
    if (const auto node_timeout = node_timeout_of(primary)) {
      facts.node_timeout =
          std::max(facts.node_timeout.value_or(*node_timeout), *node_timeout);
    }
  }
  co_return redis::examination_of(findings_of(facts), facts.primaries);
}

}  // namespace dlock::redis_cluster
