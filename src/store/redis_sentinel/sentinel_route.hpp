// The route to the server that the sentinels name as the primary.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "store/redis/route.hpp"
#include "store/redis_sentinel/discovery.hpp"
#include "store/redis_sentinel/plan.hpp"

namespace dlock::redis_sentinel {

class SentinelRoute final : public redis::Route {
 public:
  SentinelRoute(asio::io_context& context, Plan plan, milliseconds timeout)
      : Route(timeout), context_(context), plan_(std::move(plan)) {}

  asio::awaitable<std::vector<redis::Node*>> all(Clock::time_point until,
                                                 Wakeup& wakeup) override;
  bool fails_over() const override { return true; }
  std::unique_ptr<redis::Inquiry> inquire(const redis::Node& node,
                                          Clock::time_point since,
                                          Clock::time_point until) override;
  asio::awaitable<std::optional<Address>> owner_by_others(const LockName& lock,
                                                          const redis::Node& node,
                                                          Clock::time_point until,
                                                          Wakeup& wakeup) override;

 private:
  asio::awaitable<redis::Node*> node_for(const LockName& lock, Clock::time_point until,
                                         Wakeup& wakeup) override;
  asio::awaitable<unsigned> replicas_of(redis::Node& node, Clock::time_point until,
                                        Wakeup& wakeup) override;
  Then then(const LockName& lock, redis::Node& node, const redis::Reply& reply) override;
  bool has_others() const override { return true; }

  redis::Node& node_at(const Address& address);

  asio::io_context& context_;
  Plan plan_;
  std::map<Address, std::unique_ptr<redis::Node>> nodes_;  // never removed
  redis::Node* primary_ = nullptr;
  Clock::time_point discovered_at_{};  // when the sentinels were asked
  unsigned replicas_up_ = 0;           // as of then
};

}  // namespace dlock::redis_sentinel
