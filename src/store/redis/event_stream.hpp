// Events of locks, as a server publishes them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>

#include "loop/wakeup.hpp"
#include "store/redis/records.hpp"
#include "store/redis/redis_connection.hpp"

namespace dlock::redis {

// A connection that subscribes to the channels of the watched locks.
class EventStream {
 public:
  // After `silence` without a message the server is pinged. `budget` is that of one
  // operation.
  EventStream(asio::io_context& context, const Target& target, Watched watched,
              milliseconds silence, milliseconds budget);

  // Subscribes, or subscribes again. Throws Failure: rejected without permission.
  asio::awaitable<void> begin(Wakeup& wakeup);

  // The next event of a watched lock; nothing if there is none by `until`. Throws
  // Failure; then call begin() before the next call.
  asio::awaitable<std::optional<Published>> next(Clock::time_point until, Wakeup& wakeup);

 private:
  asio::awaitable<void> check_server(Wakeup& wakeup);

  RedisConnection connection_;
  std::string server_;  // for messages
  Watched watched_;
  milliseconds silence_;
  milliseconds budget_;
  Clock::time_point last_message_at_{};
  bool asked_ = false;  // pinged, without a reply yet
};

}  // namespace dlock::redis
