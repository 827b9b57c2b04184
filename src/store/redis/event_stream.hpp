// What happens to locks, as a server publishes it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>

#include "lock/event.hpp"
#include "lock/wakeup.hpp"
#include "store/redis/connection.hpp"

namespace dlock::redis {

// An event, and for a grant how long it lasts if nobody renews it; or just how long the
// lock is held on for a run that has ended.
struct Published {
  Event event;
  milliseconds lasts{};  // 0 where nothing begins
  bool is_event = true;
};

// What events.lua publishes on `channel`; nothing if it is none of that.
std::optional<Published> published_from(std::string_view channel, std::string_view text);

// A connection that has subscribed to the channels of the locks that are watched.
class EventStream {
 public:
  // A server that has not said anything for `silence` is asked whether it is there.
  // `budget` is that of one operation.
  EventStream(asio::io_context& context, const Target& target, Watched watched,
              milliseconds silence, milliseconds budget);

  // Subscribes, or does so again. Throws Failure: rejected if this user may not.
  asio::awaitable<void> begin(Wakeup& wakeup);

  // The next event that is watched; nothing if there is none until `until`. Throws
  // Failure; then nothing is to be had until begin().
  asio::awaitable<std::optional<Published>> next(Clock::time_point until, Wakeup& wakeup);

 private:
  asio::awaitable<void> check_server(Wakeup& wakeup);

  Connection connection_;
  std::string server_;  // for messages
  Watched watched_;
  milliseconds silence_;
  milliseconds budget_;
  Clock::time_point heard_{};
  bool asked_ = false;  // whether it is there
};

}  // namespace dlock::redis
