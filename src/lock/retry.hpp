#pragma once

#include "lock/clock.hpp"

namespace dlock {

// The pause between attempts to reach an unavailable store: short at first, in case it is
// restarting, and then long enough that a thousand clients do not overload it.
inline constexpr milliseconds first_retry{100};
inline constexpr milliseconds longest_retry{2000};

// An attempt that has less time is not made: it would most likely time out, and the
// message about that would hide why the attempts before it failed.
inline constexpr milliseconds least_attempt{100};

}  // namespace dlock
