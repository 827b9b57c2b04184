#pragma once

#include "util/clock.hpp"

namespace dlock {

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

  // To be called at each wake-up: how long to pause before acting on it. Grows from 40 ms
  // to the interval while wake-ups come too fast.
  milliseconds pause(Clock::time_point now);

 private:
  milliseconds allowance_;
  Clock::time_point used_until_{};  // each wake-up uses up an interval
};

}  // namespace dlock
