// Watching locks through interruptions.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>

#include "lock/event.hpp"
#include "lock/wakeup.hpp"

namespace dlock {

// Watching on one connection, which ends with it. Both throw Failure.
class WatchSession {
 public:
  WatchSession() = default;
  virtual ~WatchSession() = default;
  WatchSession(const WatchSession&) = delete;
  WatchSession& operator=(const WatchSession&) = delete;

  // Connects. Nothing that happens afterwards is missed.
  virtual asio::awaitable<void> begin() = 0;

  // Tells `sink` of what is heard next. Returns now and then, also if nothing is.
  virtual asio::awaitable<void> go_on(EventSink& sink) = 0;
};

using NewWatchSession = std::function<std::unique_ptr<WatchSession>()>;

// What LockInspector::watch() says, by one session after the other: the next one when one
// fails, after a pause that gets longer while none begins.
asio::awaitable<void> keep_watching(NewWatchSession new_session, EventSink& sink,
                                    Wakeup& wakeup);

}  // namespace dlock
