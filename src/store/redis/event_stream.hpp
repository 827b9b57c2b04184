// Events of locks, as a server publishes them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>

#include "lock/event.hpp"
#include "loop/wakeup.hpp"
#include "store/redis/redis_connection.hpp"

namespace dlock::redis {

// An event, and for a grant how long its lease lasts without renewal; or only how long
// the lock stays held after its run has ended.
struct Published {
  Event event;
  milliseconds lasts{};  // 0 if no lease begins
  bool is_event = true;
};

// A message of events.lua on `channel`; nothing if `text` is not one.
std::optional<Published> published_from(std::string_view channel, std::string_view text);

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
