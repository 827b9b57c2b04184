// The route to the server that the sentinels name as the primary.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "store/redis_sentinel/sentinel_votes.hpp"
#include "store/store_url.hpp"

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

// As open_store() and examine_store().
OpenStore open;
ExamineStore examine;

}  // namespace dlock::redis_sentinel
