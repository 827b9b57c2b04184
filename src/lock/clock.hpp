// The two clocks: one for deadlines, one for text and fences.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace dlock {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Time since boot, suspend included. Every deadline is on this clock: the monotonic
// one stands still in suspend, so a machine that slept would believe in old leases.
struct Clock {
  using duration = nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    std::timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return time_point(std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec));
  }
};

inline milliseconds elapsed_since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

// Microseconds since the epoch. For printed text, fences and deduplication; it can
// step, so no deadline is ever computed from it.
using WallTime = std::chrono::microseconds;

inline WallTime wall_now() noexcept {
  return std::chrono::duration_cast<WallTime>(
      std::chrono::system_clock::now().time_since_epoch());
}

// Sets a timer on boot time (timerfd_create(2)) to go off at `moment`, or at once if that
// is over; max(): never. False with errno if that is not possible.
bool set_timer(int timer, Clock::time_point moment);

// `moment + span` that stays at the end of time instead of running over.
inline Clock::time_point later(Clock::time_point moment, milliseconds span) {
  const auto left = std::chrono::floor<milliseconds>(Clock::time_point::max() - moment);
  return span >= left ? Clock::time_point::max() : moment + span;
}

}  // namespace dlock
