#include "store/redis/redis_rates.hpp"

#include <algorithm>
#include <utility>

#include "store/redis/answers.hpp"
#include "store/redis/keys.hpp"
#include "store/redis/limit_record.hpp"

namespace dlock::redis {
asio::awaitable<RateAnswer> RedisRates::admit(const RateClaim& claim, Wakeup& wakeup) {
  std::vector<std::string> args{member_of(claim), std::to_string(claim.rate.most),
                                std::to_string(claim.rate.period.count()),
                                std::to_string(claim.patience.count())};
  const auto response =
      co_await route_.run(limit_script, claim.limit, std::move(args), wakeup);
  const auto answer = rate_answer_from(response.reply());
  if (!answer) throw response.failure();
  co_return *answer;
}

// As in release(): not `wakeup`, which may be interrupted.
asio::awaitable<void> RedisRates::withdraw(const RateClaim& claim, Wakeup& wakeup) {
  std::vector<std::string> args{member_of(claim)};
  Wakeup own(context_);
  const auto budget =
      wakeup.gives_up() ? std::min(route_.timeout(), last_patience) : route_.timeout();
  const auto response = co_await route_.run(withdraw_script, claim.limit, std::move(args),
                                            later(Clock::now(), budget), own);
  if (response.reply().is_error()) throw response.failure();
}

asio::awaitable<LimitInfo> RedisRates::look(const LockName& limit, Wakeup& wakeup) {
  const auto response = co_await route_.run(look_at_limit_script, limit,
                                            std::vector<std::string>{}, wakeup);
  auto kept = kept_limit_from(response.reply());
  if (!kept) throw response.failure();
  co_return rules::look(std::move(kept->state), kept->now);
}

asio::awaitable<void> RedisRates::reset(const LockName& limit, Wakeup& wakeup) {
  Command forget{"DEL"};
  for (const char* part : {":limit", ":limit:stamps", ":limit:queue", ":limit:turns"}) {
    forget.push_back(key_of(limit) + part);
  }
  const auto response = co_await route_.exchange(limit, alone(std::move(forget)), wakeup);
  if (response.reply().is_error()) throw response.failure();
}

asio::awaitable<Admission> RedisRegisters::admit_fence(const LockName& resource,
                                                       Fence fence, Wakeup& wakeup) {
  std::vector<std::string> args{std::to_string(fence.number)};
  const auto response =
      co_await route_.run(admit_fence_script, resource, std::move(args), wakeup);
  const auto admission = admission_from(response.reply());
  if (!admission) throw response.failure();
  co_return *admission;
}

}  // namespace dlock::redis
