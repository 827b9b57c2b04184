// The one place where dlock sleeps.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "lock/boot_timer.hpp"
#include "lock/clock.hpp"

namespace dlock {

// What one coroutine waits on while everything else (signals, children, sockets)
// only notes what happened and calls notify(). So there is one sleeper, nothing is
// ever cancelled half way, and each wake-up starts by looking at the clock.
class Wakeup {
 public:
  explicit Wakeup(asio::io_context& context);
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  // Ends the sleep under way, or makes the next one end at once.
  void notify();

  // Asks whoever sleeps inside an operation on a store to give it up; see
  // gives_up(). Sticky until it is taken back.
  void give_up(bool wanted);
  bool gives_up() const { return gives_up_; }

  // Makes the timer now, if the context has none yet, and not when it is first needed,
  // which may be when a command runs that must not suffer from there being none left.
  // Throws Failure (exhausted).
  void prepare();

  // Sleeps until notify() or `moment`, whichever comes first; may end early. Whoever
  // calls it has looked at everything a notification could be about. One at a time.
  asio::awaitable<void> wait_until(Clock::time_point moment);

  // Of the timer: notifies if the moment that this waits for has come. The next moment
  // that it is to be looked at.
  Clock::time_point look_at_clock(Clock::time_point now);

 private:
  void arm(Clock::time_point moment);

  asio::io_context& context_;
  asio::steady_timer sleep_;  // never expires by itself: a condition variable
  BootTimer* timer_ = nullptr;
  Clock::time_point armed_ = Clock::time_point::max();
  bool notified_ = false;
  bool gives_up_ = false;
};

}  // namespace dlock
