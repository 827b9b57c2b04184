#include <algorithm>

#include "store/redis/connection.hpp"
#include "store/redis/examine.hpp"
#include "store/redis/redis_store.hpp"
#include "store/redis_cluster/cluster_route.hpp"
#include "store/redis_cluster/health.hpp"
#include "store/redis_cluster/plan.hpp"
#include "store/round_trips.hpp"

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
  Examination examination;
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
  examination.findings = findings_of(facts);
  for (const auto& primary : facts.primaries) {
    const auto round_trip = median_of(primary.round_trips);
    if (round_trip) {
      examination.round_trip =
          std::max(examination.round_trip.value_or(*round_trip), *round_trip);
    }
  }
  if (examination.round_trip) {
    examination.smallest_ttl = smallest_ttl_for(
        needed_budget(*examination.round_trip, facts.primaries.front().trips_to_renew));
  }
  co_return examination;
}

}  // namespace dlock::redis_cluster
