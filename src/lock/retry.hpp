#pragma once

#include "lock/clock.hpp"

namespace dlock {

// Between tries to reach a store that is not there: soon at first, for a restart, and
// then seldom enough that a thousand clients do not add to its trouble.
inline constexpr milliseconds first_retry{100};
inline constexpr milliseconds longest_retry{2000};

}  // namespace dlock
