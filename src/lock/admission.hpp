// Asking a limit until it admits or the patience is over.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>

#include "lock/rates.hpp"
#include "util/failure.hpp"

namespace dlock {

struct TurnPatience {
  // Until when to wait; min(): ask once, max(): without end.
  Clock::time_point until = Clock::time_point::min();
  // Told while the claim has a turn in so long. Returns for how long that is good enough
  // for whoever is shown it.
  std::function<milliseconds(milliseconds turn_in)> waiting;
  // Told why the store could not be asked, before it is tried again.
  std::function<void(const Failure&)> retrying;
};

// Puts `claim` to `limits`, sleeps until its turn, and puts it again. Not admitted as
// soon as it is known that the turn comes too late for the patience. A store that cannot
// be reached is tried again while there is patience left, as in lock/acquire.hpp. Who is
// interrupted has no place in line any more.
asio::awaitable<RateAnswer> await_admission(RateLimits& limits, RateClaim claim,
                                            TurnPatience patience, Wakeup& wakeup);

}  // namespace dlock
