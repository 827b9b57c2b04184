// Asks a store until it grants a lock or admits a claim of a rate limit, or until the
// wait is over.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>

#include "lock/claimant.hpp"
#include "lock/store.hpp"
#include "util/failure.hpp"

namespace dlock {

struct Patience {
  // How long to wait in the queue; nothing: ask once; max(): without end.
  std::optional<Clock::time_point> until;
  // Whether an unreachable store is tried again during the wait.
  bool waits_for_store = true;
  // Called each time the claim is found waiting. Returns how long the text shown to the
  // user stays valid: after that the store is asked again, which otherwise happens only
  // when the lock may have become free.
  std::function<milliseconds(const Busy&)> waiting;
  // Called with the reason before an unreachable store is tried again.
  std::function<void(const Failure&)> retrying;
  // Like `waiting`, to act on the holders that block the claim.
  std::function<asio::awaitable<milliseconds>(const Busy&)> clearing{};
};

// Requests the lock and waits for its turn. Returns Busy only when the wait is over, or
// when the queue is too long for this claim (Claim::max_queue); the store has counted the
// refusal by then. For a deduplicated claim that has waited for a run to end, that run
// counts. An unreachable store is tried again while the wait allows it; then its Failure
// is thrown. Every other Failure is thrown at once.
asio::awaitable<Answer> acquire(Claimant& claimant, const Patience& patience,
                                Wakeup& wakeup);

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
// again while the wait allows it, as in acquire(). An interrupted claim loses its
// place in the queue.
asio::awaitable<RateAnswer> await_admission(RateLimits& limits, RateClaim claim,
                                            TurnPatience patience, Wakeup& wakeup);

}  // namespace dlock
