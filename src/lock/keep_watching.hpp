// Watches locks through interruptions.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>

#include "lock/event.hpp"
#include "loop/wakeup.hpp"

namespace dlock {

// Watches on one connection, and ends with it. Both functions throw Failure.
class WatchSession {
 public:
  WatchSession() = default;
  virtual ~WatchSession() = default;
  WatchSession(const WatchSession&) = delete;
  WatchSession& operator=(const WatchSession&) = delete;

  // Connects. No later event is missed.
  virtual asio::awaitable<void> begin() = 0;

  // Reports the next events to `sink`. Returns from time to time even if there are none.
  virtual asio::awaitable<void> go_on(EventSink& sink) = 0;
};

using NewWatchSession = std::function<std::unique_ptr<WatchSession>()>;

// Implements LockInspector::watch() with a sequence of sessions. When one fails the next
// is started, after a pause that grows while none lasts.
asio::awaitable<void> keep_watching(NewWatchSession new_session, EventSink& sink,
                                    Wakeup& wakeup);

}  // namespace dlock
