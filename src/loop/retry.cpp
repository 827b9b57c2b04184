#include "loop/retry.hpp"

#include <algorithm>

namespace dlock {

milliseconds growing_pause(int failures, milliseconds longest, milliseconds first) {
  constexpr int most_doublings = 20;
  return std::min(first * (1 << std::min(failures - 1, most_doublings)), longest);
}

milliseconds Restraint::pause(Clock::time_point now) {
  constexpr milliseconds shortest{20};
  constexpr std::int64_t most_doublings = 4;
  used_until_ = later(std::max(used_until_, now), interval);
  const auto excess = used_until_ - now - allowance_;
  if (excess <= nanoseconds(0)) return milliseconds(0);
  const auto doublings = std::min<std::int64_t>(excess / interval, most_doublings);
  return std::min<milliseconds>(shortest * (1 << doublings), interval);
}

}  // namespace dlock
