// Asks a rate limit until it admits the claim or the wait is over.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>

#include "lock/rates.hpp"
#include "util/failure.hpp"

namespace dlock {

struct TurnPatience {
  // How long to wait; min(): ask once; max(): without end.
  Clock::time_point until = Clock::time_point::min();
  // Called while the claim has a turn, with the time until then. Returns how long the
  // text shown to the user stays valid.
  std::function<milliseconds(milliseconds turn_in)> waiting;
  // Called with the reason before an unreachable store is tried again.
  std::function<void(const Failure&)> retrying;
};

// Asks for admission, sleeps until the claim's turn and asks again. Returns NotAdmitted
// as soon as it is known that the turn comes too late. An unreachable store is tried
// again while the wait allows it, as in lease/acquire.hpp. An interrupted claim loses its
// place in the queue.
asio::awaitable<RateAnswer> await_admission(RateLimits& limits, RateClaim claim,
                                            TurnPatience patience, Wakeup& wakeup);

}  // namespace dlock
