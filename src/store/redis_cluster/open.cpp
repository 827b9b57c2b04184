#include <algorithm>

#include "store/redis/connection.hpp"
#include "store/redis/examine.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis_cluster/cluster_route.hpp"
#include "store/redis_cluster/health.hpp"
#include "store/redis_cluster/plan.hpp"

namespace dlock::redis_cluster {
namespace {

std::optional<milliseconds> node_timeout_of(const redis::Facts& facts) {
  const auto found = facts.config.find("cluster-node-timeout");
  if (found == facts.config.end()) return std::nullopt;
  return redis::milliseconds_from(found->second);
}

}  // namespace

std::unique_ptr<Store> open(const Plan& plan, milliseconds timeout,
                            asio::io_context& context) {
  auto route =
      std::make_unique<ClusterRoute>(context, plan, timeout, runtime_directory());
  return std::make_unique<redis::RedisStore>(context, plan.url(), std::move(route));
}

asio::awaitable<Examination> examine(const Plan& plan, const std::string& name_space,
                                     milliseconds timeout, asio::io_context& context,
                                     Wakeup& wakeup) {
  ClusterFacts facts;
  ClusterRoute route(context, plan, timeout);
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
