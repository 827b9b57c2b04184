// Asking all sentinels at once which server is the primary.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/redis_sentinel/votes.hpp"

namespace dlock::redis_sentinel {

struct Plan;

// One question to all sentinels, each over a short connection of its own. The constructor
// starts it; the destructor abandons sentinels that have not replied.
class Discovery {
 public:
  // Sentinels may reply until `until`. `with_replicas`: also asks for the replicas.
  Discovery(asio::io_context& context, const Plan& plan, bool with_replicas,
            Clock::time_point until);
  ~Discovery();
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  Clock::time_point began() const { return began_; }
  const std::vector<Ballot>& ballots() const;

  // Waits until `is_certain(ballots)`, until all have replied, or until `until`. Throws
  // Failure (interrupted).
  asio::awaitable<void> wait(std::function<bool(const std::vector<Ballot>&)> is_certain,
                             Clock::time_point until, Wakeup& wakeup);

 private:
  struct State;
  static asio::awaitable<void> ask(std::shared_ptr<State> state, std::size_t number);

  Clock::time_point began_ = Clock::now();
  std::shared_ptr<State> state_;  // shared with the coroutines that ask
};

}  // namespace dlock::redis_sentinel
