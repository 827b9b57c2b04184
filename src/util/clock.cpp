#include "util/clock.hpp"

#include <sys/timerfd.h>

#include <algorithm>

namespace dlock {

bool set_timer(int timer, Clock::time_point moment) {
  itimerspec setting{};
  if (moment != Clock::time_point::max()) {
    // Zero would disarm it; a moment in the past fires at once.
    const auto at = std::max(moment.time_since_epoch(), nanoseconds(1));
    setting.it_value.tv_sec = at.count() / 1'000'000'000;
    setting.it_value.tv_nsec = at.count() % 1'000'000'000;
  }
  return ::timerfd_settime(timer, TFD_TIMER_ABSTIME, &setting, nullptr) == 0;
}

}  // namespace dlock
