#pragma once

#include "lock/clock.hpp"

namespace dlock {

// The pause between attempts to reach an unavailable store: short at first, in case it is
// restarting, and then long enough that a thousand clients do not overload it.
inline constexpr milliseconds first_retry{100};
inline constexpr milliseconds longest_retry{2000};

}  // namespace dlock
