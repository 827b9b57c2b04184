// Rate limits and fence registers on Redis or Valkey servers.
#pragma once

#include <boost/asio/io_context.hpp>

#include "lock/fence_registers.hpp"
#include "lock/rates.hpp"
#include "store/redis/route.hpp"

namespace dlock::redis {

class RedisRates final : public RateLimits {
 public:
  // `route` must outlive this.
  RedisRates(asio::io_context& context, Route& route)
      : context_(context), route_(route) {}

  asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) override;
  asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) override;
  asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) override;

 private:
  asio::io_context& context_;
  Route& route_;
};

class RedisRegisters final : public FenceRegisters {
 public:
  explicit RedisRegisters(Route& route) : route_(route) {}

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;

 private:
  Route& route_;
};

}  // namespace dlock::redis
