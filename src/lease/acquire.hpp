// Requests a lock until it is granted or the wait is over.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>

#include "lock/claimant.hpp"
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

// How often a lease is requested again if too little of it was left before it could be
// used, and the error to throw after that.
constexpr int most_repeats = 3;
Failure lease_too_short();

}  // namespace dlock
