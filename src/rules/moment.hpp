// One moment on both clocks.
#pragma once

#include "util/clock.hpp"

namespace dlock::rules {

struct Moment {
  Clock::time_point boot;
  WallTime wall{};

  static Moment now() { return {Clock::now(), wall_now()}; }
};

// Whether a time read from a file is plausible: after the epoch, with a year of four
// digits.
constexpr bool is_possible(WallTime time) {
  constexpr WallTime year_10000 = std::chrono::seconds(253'402'300'800);
  return time >= WallTime(0) && time < year_10000;
}

}  // namespace dlock::rules
