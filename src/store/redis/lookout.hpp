// Notices that another server has taken over the keys of a lock.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "lock/lease.hpp"
#include "store/redis/route.hpp"

namespace dlock::redis {

// While a server is silent, or does not confirm a lease, others know whether it was
// replaced, and their answer is cheap. So they are asked at short intervals, and the new
// server is used as soon as it is named, and not only at the next attempt.
class Lookout {
 public:
  // Asks from `begin` on, until it is destroyed. Calls `found` for each server that is
  // named in the place of `server`, once each. `route` must outlive this.
  Lookout(asio::io_context& context, Route& route, const LockName& lock,
          const Node& server, Clock::time_point begin,
          std::function<void(const Address&)> found);
  ~Lookout();
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

 private:
  struct State;
  static asio::awaitable<void> watch(std::shared_ptr<State> state);
  static asio::awaitable<void> sleep(State& state, Clock::time_point until);

  std::shared_ptr<State> state_;  // shared with the coroutine
};

// How long to wait before the first question and between two. Each client of the servers
// that failed asks all sentinels, so the interval must not be much shorter.
constexpr milliseconds lookout_interval(milliseconds budget) { return budget / 4; }

}  // namespace dlock::redis
