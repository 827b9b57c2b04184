// The two clocks: one for deadlines, one for text and fences.
#pragma once

#include <sys/timerfd.h>

#include <algorithm>
#include <chrono>
#include <ctime>

namespace dlock {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Time since boot, including suspend. Every deadline is on this clock: the monotonic
// clock stops during suspend, so a machine that slept would trust expired leases.
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

// Microseconds since the epoch, for printed text, fences and deduplication. This clock
// can be set, so no deadline is computed from it.
using WallTime = std::chrono::microseconds;

inline WallTime wall_now() noexcept {
  return std::chrono::duration_cast<WallTime>(
      std::chrono::system_clock::now().time_since_epoch());
}

// Sets a timer on boot time (timerfd_create(2)) to fire at `moment`, or at once if that
// is in the past; max(): never. Returns false with errno on failure.
inline bool set_timer(int timer, Clock::time_point moment) {
  itimerspec setting{};
  if (moment != Clock::time_point::max()) {
    // Zero would disarm it; a moment in the past fires at once.
    const auto at = std::max(moment.time_since_epoch(), nanoseconds(1));
    setting.it_value.tv_sec = at.count() / 1'000'000'000;
    setting.it_value.tv_nsec = at.count() % 1'000'000'000;
  }
  return ::timerfd_settime(timer, TFD_TIMER_ABSTIME, &setting, nullptr) == 0;
}

// `moment + span`, limited to max() where that would overflow.
inline Clock::time_point later(Clock::time_point moment, milliseconds span) {
  const auto left = std::chrono::floor<milliseconds>(Clock::time_point::max() - moment);
  return span >= left ? Clock::time_point::max() : moment + span;
}

}  // namespace dlock
