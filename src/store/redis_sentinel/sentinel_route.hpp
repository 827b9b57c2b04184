// The way to the server that sentinels name as the primary.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "store/redis/hint.hpp"
#include "store/redis/route.hpp"
#include "store/redis_sentinel/discovery.hpp"
#include "store/redis_sentinel/plan.hpp"

namespace dlock::redis_sentinel {

// While the sentinels are asked for the first time, a connection is made to the server
// that they named the last time, if there is a hint. Nothing is asked there before they
// have named it again.
class SentinelRoute final : public redis::Route {
 public:
  // `runtime_directory` is where hints are kept; nowhere if it is empty.
  SentinelRoute(asio::io_context& context, Plan plan, milliseconds timeout,
                std::string runtime_directory = {})
      : Route(timeout),
        context_(context),
        plan_(std::move(plan)),
        hint_(std::move(runtime_directory), redis::hint_name(plan_.url())) {}

  asio::awaitable<std::vector<redis::Node*>> all(Clock::time_point until,
                                                 Wakeup& wakeup) override;
  bool fails_over() const override { return true; }
  std::unique_ptr<redis::Inquiry> inquire(const redis::Node& node,
                                          Clock::time_point since,
                                          Clock::time_point until) override;

 private:
  asio::awaitable<redis::Node*> node_for(const LockName& lock, Clock::time_point until,
                                         Wakeup& wakeup) override;
  asio::awaitable<unsigned> replicas_of(redis::Node& node, Clock::time_point until,
                                        Wakeup& wakeup) override;
  Then then(const LockName& lock, redis::Node& node, const redis::Reply& reply) override;
  bool has_others() const override { return true; }

  redis::Node& node_at(const Address& address);
  asio::awaitable<redis::Node*> dialled_by_hint(Clock::time_point until, Wakeup& wakeup);

  asio::io_context& context_;
  Plan plan_;
  std::map<Address, std::unique_ptr<redis::Node>> nodes_;  // all that there ever were
  redis::HintFile hint_;
  redis::Node* primary_ = nullptr;
  Clock::time_point discovered_at_{};  // when that was asked
  unsigned replicas_up_ = 0;           // then
};

}  // namespace dlock::redis_sentinel
