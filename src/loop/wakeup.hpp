// The event loop: the one place where dlock sleeps, how long it pauses between attempts,
// and descriptors that become readable.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "util/clock.hpp"
#include "util/fd.hpp"

namespace dlock {

// How long not to listen after a call; see Readable.
using PauseAfterCall = std::function<std::chrono::milliseconds()>;

// Owns a descriptor and calls `happened` each time it becomes readable, until this object
// is destroyed; never after that, not even for an event that was already queued.
// `happened` has to read the data, and may destroy this object.
class Readable {
 public:
  // Where others decide how often the descriptor is readable, `pause` keeps them from
  // keeping us busy: it is asked after each call. Throws Failure (exhausted) if it cannot
  // be watched.
  Readable(boost::asio::io_context& context, Fd fd, std::function<void()> happened,
           PauseAfterCall pause = nullptr);
  ~Readable();
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;

  int fd() const;

 private:
  struct Watch;
  static void listen(const std::shared_ptr<Watch>& watch);
  static void listen_again(const std::shared_ptr<Watch>& watch);

  std::shared_ptr<Watch> watch_;
};

namespace asio = boost::asio;

class Wakeup;
struct Call;

// A timer on boot time, which Asio's timers do not use. There is one per context, created
// when it is first needed. Creating a timer takes four system calls and setting it
// another one, which would delay the command; so there is only one, and it is only ever
// set to an earlier moment. A moment that is no longer needed wakes the process once for
// nothing.
class BootTimer final : public asio::execution_context::service {
 public:
  using key_type = BootTimer;
  static asio::execution_context::id id;

  // Throws Failure (exhausted).
  explicit BootTimer(asio::execution_context& context);

  void add(Wakeup& sleeper) { sleepers_.push_back(&sleeper); }
  void remove(Wakeup& sleeper) { std::erase(sleepers_, &sleeper); }

  // Has the sleepers notified at `moment` at the latest.
  void wake_by(Clock::time_point moment) {
    if (moment < set_to_) set(moment);
  }

 private:
  void shutdown() override { timer_.reset(); }
  void expired();
  void set(Clock::time_point moment);

  std::optional<Readable> timer_;
  Clock::time_point set_to_ = Clock::time_point::max();
  std::vector<Wakeup*> sleepers_;
};

// One coroutine waits on this object while everything else (signals, child processes,
// sockets) only records what happened and calls notify(). There is thus one sleeper,
// nothing is cancelled half-way, and each wake-up starts by reading the clock.
class Wakeup {
 public:
  explicit Wakeup(asio::io_context& context);
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  // Ends the current sleep, or makes the next one return at once.
  void notify();

  // Asks an operation on a store that sleeps to stop; see gives_up(). Remains set until
  // it is cleared with false.
  void give_up(bool wanted);
  bool gives_up() const { return gives_up_; }

  // A call that sleeps on this and ends `span` from now.
  Call within(milliseconds span);

  // The caller's wait ends at `moment`: a last request behind it is hurried. Until it is
  // called with max().
  void finish_by(Clock::time_point moment) { finish_by_ = moment; }

  // When the last request of an operation has to end: one that is sent all the same, as a
  // release is. Within `timeout`; and within `patience` if it is asked to stop, or from
  // the end of the wait on.
  Clock::time_point last_request_until(milliseconds timeout,
                                       milliseconds patience) const {
    const auto now = Clock::now();
    const auto wait_ends = gives_up_ ? now : std::max(now, finish_by_);
    return std::min(later(now, timeout), later(wait_ends, patience));
  }

  // Creates the timer now if the context has none yet, and not when it is first needed,
  // so that it is certain to be there when a command must be stopped in time. Throws
  // Failure (exhausted).
  void prepare();

  // Sleeps until notify() or `moment`, whichever comes first; may return early. The
  // caller must have checked everything that a notification could be about. One call at a
  // time. If no timer can be created, it returns every 100 ms: a command may be running
  // that must not be abandoned for that.
  asio::awaitable<void> wait_until(Clock::time_point moment);

  // Sleeps until notify(), or for about `span`, and costs less than wait_until(). Time
  // when the machine is suspended does not count, so nothing that has to happen in time
  // can depend on it.
  asio::awaitable<void> wait_for(milliseconds span);

  // Sleeps until `moment`, whatever notifies it, or until it is asked to give up.
  asio::awaitable<void> sleep_until(Clock::time_point moment);

  // Called by the timer: notifies if the awaited moment has come. Returns the next moment
  // at which to call it.
  Clock::time_point look_at_clock(Clock::time_point now);

 private:
  void arm(Clock::time_point moment);
  asio::awaitable<void> sleep();

  asio::io_context& context_;
  asio::steady_timer sleep_;  // a condition variable, which expires only in wait_for()
  BootTimer* timer_ = nullptr;
  Clock::time_point armed_ = Clock::time_point::max();
  bool notified_ = false;
  bool gives_up_ = false;
  Clock::time_point finish_by_ = Clock::time_point::max();
};

// What an operation that may sleep is given: when it has to end, and on what it sleeps,
// which may ask it to stop earlier. Made for one operation, and passed on by value.
struct Call {
  Clock::time_point until;
  Wakeup& wakeup;

  bool is_over() const { return Clock::now() >= until; }

  // The same operation, or a part of it, that ends at `end` if that is earlier...
  Call by(Clock::time_point end) const { return {std::min(until, end), wakeup}; }
  // ...or so long from now...
  Call within(milliseconds span) const { return by(later(Clock::now(), span)); }
  // ...or when one of so many equal parts of the time left has passed.
  Call share(int parts) const {
    const auto now = Clock::now();
    return {now + (until - now) / parts, wakeup};
  }

  // Wakeup::wait_until() and sleep_until() its end.
  asio::awaitable<void> wait() const { return wakeup.wait_until(until); }
  asio::awaitable<void> sleep() const { return wakeup.sleep_until(until); }
};

inline Call Wakeup::within(milliseconds span) {
  return {later(Clock::now(), span), *this};
}

// The pause between attempts to reach an unavailable store: short at first, in case it is
// restarting, and then long enough that a thousand clients do not overload it.
inline constexpr milliseconds first_retry{100};
inline constexpr milliseconds longest_retry{2000};

// The pause after that many failures: `first`, and then twice as long each time, but at
// most `longest`.
milliseconds growing_pause(int failures, milliseconds longest = longest_retry,
                           milliseconds first = first_retry);

// Counts the failures.
class GrowingPause {
 public:
  explicit GrowingPause(milliseconds longest = longest_retry,
                        milliseconds first = first_retry)
      : longest_(longest), first_(first) {}

  // The pause after one more failure.
  milliseconds next() { return growing_pause(++failures_, longest_, first_); }

  // It has succeeded.
  void reset() { failures_ = 0; }

 private:
  milliseconds longest_;
  milliseconds first_;
  int failures_ = 0;
};

// Slows down what is woken again and again without a reason: a server, a proxy or a
// member of a shared directory may wake a waiter as often as it likes, and each time the
// waiter asks the store. A wake-up with a reason is rarer, and is not delayed.
class Restraint {
 public:
  // Wake-ups are free while they come no faster than one in this time on average...
  static constexpr milliseconds interval{200};
  // ...or while there are no more than `burst` in quick succession.
  explicit Restraint(int burst = 8) : allowance_(interval * burst) {}

  // To be called at each wake-up: how long to pause before acting on it. Grows from 20 ms
  // to the interval while wake-ups come too fast.
  milliseconds pause(Clock::time_point now);

 private:
  milliseconds allowance_;
  Clock::time_point used_until_{};  // each wake-up uses up an interval
};

// Runs `work` to completion. Returns what it returns, or throws what it throws.
template <typename Work>
auto run_blocking(asio::io_context& context, Work work) {
  using Result = typename decltype(work())::value_type;
  [[maybe_unused]] std::conditional_t<std::is_void_v<Result>, bool, std::optional<Result>>
      result{};
  std::exception_ptr error;
  asio::co_spawn(context, std::move(work),
                 [&](std::exception_ptr thrown, auto&&... value) {
                   error = thrown;
                   ((result = std::move(value)), ...);
                   // A timer of the store may still be armed.
                   context.stop();
                 });
  context.run();
  // The caller may run the context again.
  context.restart();
  if (error) std::rethrow_exception(error);
  if constexpr (!std::is_void_v<Result>) return std::move(*result);
}

}  // namespace dlock
