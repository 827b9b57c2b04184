#include "store/redis/redis_store.hpp"

#include <utility>

#include "store/redis/address.hpp"
#include "store/redis/answers.hpp"
#include "store/redis/arguments.hpp"
#include "store/redis/redis_claimant.hpp"

namespace dlock::redis {

RedisStore::RedisStore(asio::io_context& context, std::string url,
                       std::unique_ptr<Route> route)
    : context_(context),
      url_(std::move(url)),
      route_(std::move(route)),
      inspector_(*route_),
      values_(*route_),
      rates_(context, *route_),
      registers_(*route_) {}

std::unique_ptr<Claimant> RedisStore::claimant(const Claim& claim) {
  return std::make_unique<RedisClaimant>(context_, *route_, claim);
}

asio::awaitable<std::vector<Broken>> RedisStore::break_leases(const LockName& lock,
                                                              const Break& order,
                                                              Wakeup& wakeup) {
  std::vector<std::string> args;
  args.reserve(2 + order.fences.size());
  args.push_back(taker_text());
  args.emplace_back(order.by_force ? "forced_by" : "broken_by");
  for (const auto& fence : order.fences) args.push_back(std::to_string(fence.number));
  const auto response = co_await route_->run(break_script, lock, std::move(args), wakeup);
  auto holders = broken_from(response.reply());
  if (!holders) throw response.failure();
  std::vector<Broken> broken;
  for (auto& holder : *holders) broken.push_back({std::move(holder), {}});
  co_return broken;
}

std::unique_ptr<Store> store_of(const Target& target, milliseconds timeout,
                                asio::io_context& context) {
  return std::make_unique<RedisStore>(
      context, url_of(target), std::make_unique<SoleRoute>(context, target, timeout));
}

}  // namespace dlock::redis
