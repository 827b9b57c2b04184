// The route to the server that the sentinels name as the primary.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "store/redis/reply.hpp"
#include "store/redis/route.hpp"
#include "store/redis/target.hpp"
#include "store/redis_sentinel/sentinel_votes.hpp"
#include "store/store_url.hpp"
#include "util/failure.hpp"

namespace dlock::redis_sentinel {

// One question to all sentinels, each over a separate short connection. The constructor
// starts it; the destructor abandons sentinels that have not replied.
class Discovery {
 public:
  // Sentinels may reply until `until`. `with_replicas`: also asks for the replicas.
  Discovery(asio::io_context& context, const StoreUrl& url, bool with_replicas,
            Clock::time_point until);
  ~Discovery();
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  Clock::time_point began() const { return began_; }
  const std::vector<SentinelBallot>& ballots() const;

  // Waits until `is_certain(ballots)`, until all have replied, or until `until`. Throws
  // Failure (interrupted).
  asio::awaitable<void> wait(
      std::function<bool(const std::vector<SentinelBallot>&)> is_certain, Call call);

 private:
  struct State;
  static asio::awaitable<void> ask(std::shared_ptr<State> state, std::size_t number);

  Clock::time_point began_ = Clock::now();
  std::shared_ptr<State> state_;  // shared with the coroutines that ask
};

class SentinelRoute final : public redis::Route {
 public:
  SentinelRoute(asio::io_context& context, StoreUrl url, milliseconds timeout)
      : Route(timeout), context_(context), url_(std::move(url)) {}

  asio::awaitable<std::vector<redis::Node*>> all(Call call) override;
  bool fails_over() const override { return true; }
  std::unique_ptr<redis::Inquiry> inquire(const redis::Node& node,
                                          Clock::time_point since,
                                          Clock::time_point until) override;
  asio::awaitable<std::optional<ServerAddress>> owner_by_others(const LockName& lock,
                                                                const redis::Node& node,
                                                                Call call) override;

 private:
  asio::awaitable<redis::Node*> node_for(const LockName& lock, Call call) override;
  asio::awaitable<unsigned> replicas_of(redis::Node& node, Call call) override;
  Then then(const LockName& lock, redis::Node& node, const redis::Reply& reply) override;
  bool has_others() const override { return true; }

  redis::Node& node_at(const ServerAddress& address);

  asio::io_context& context_;
  StoreUrl url_;
  std::map<ServerAddress, std::unique_ptr<redis::Node>> nodes_;  // never removed
  redis::Node* primary_ = nullptr;
  Clock::time_point discovered_at_{};  // when the sentinels were asked
  unsigned replicas_up_ = 0;           // as of then
};

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::redis_sentinel
