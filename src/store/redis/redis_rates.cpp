#include "store/redis/redis_rates.hpp"

#include <algorithm>
#include <utility>

#include "store/redis/answers.hpp"

namespace dlock::redis {
asio::awaitable<RateAnswer> RedisRates::admit(const RateClaim& claim, Wakeup& wakeup) {
  auto& node = *co_await route_.node_for(claim.limit, wakeup);
  std::vector<std::string> args{text_of(claim.token), std::to_string(claim.rate.most),
                                std::to_string(claim.rate.period.count()),
                                std::to_string(claim.patience.count())};
  const auto reply =
      co_await node.run(limit_script, claim.limit, std::move(args), wakeup);
  const auto answer = rate_answer_from(reply);
  if (!answer) throw node.failure(reply);
  co_return *answer;
}

// As release(): not `wakeup`, which gives up.
asio::awaitable<void> RedisRates::withdraw(const RateClaim& claim, Wakeup& wakeup) {
  std::vector<std::string> args{text_of(claim.token)};
  Wakeup own(context_);
  auto& node = *co_await route_.node_for(claim.limit, own);
  const auto budget =
      wakeup.gives_up() ? std::min(node.timeout(), last_patience) : node.timeout();
  const auto reply = co_await node.run(withdraw_script, claim.limit, std::move(args),
                                       later(Clock::now(), budget), own);
  if (reply.is_error()) throw node.failure(reply);
}

asio::awaitable<Admission> RedisRegisters::admit_fence(const LockName& resource,
                                                       Fence fence, Wakeup& wakeup) {
  auto& node = *co_await route_.node_for(resource, wakeup);
  std::vector<std::string> args{std::to_string(fence.number)};
  const auto reply =
      co_await node.run(admit_fence_script, resource, std::move(args), wakeup);
  const auto admission = admission_from(reply);
  if (!admission) throw node.failure(reply);
  co_return *admission;
}

}  // namespace dlock::redis
