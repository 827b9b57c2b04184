// Asking for a lock until it is granted or the patience is over.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>

#include "lock/claimant.hpp"
#include "util/failure.hpp"

namespace dlock {

struct Patience {
  // Until when to wait in the queue; nothing: ask once. max(): without end.
  std::optional<Clock::time_point> until;
  // Whether a store that cannot be reached is tried again meanwhile.
  bool waits_for_store = true;
  // Told each time the claim was found waiting. Returns for how long that is good enough
  // for whoever is shown it: then the store is asked again, which else is done only when
  // there may be something to win.
  std::function<milliseconds(const Busy&)> waiting;
  // Told why the store could not be asked, before it is tried again.
  std::function<void(const Failure&)> retrying;
  // As `waiting`, for what is to be done about those in the way.
  std::function<asio::awaitable<milliseconds>(const Busy&)> clearing{};
};

// Asks for the lock and waits for its turn. Busy only when the patience is over, or so
// many wait that this one does not (Claim::max_queue); the store has counted it then.
// A run that is going on then counts for a claim that has waited for its end.
// A store that cannot be reached is tried again while there is patience left for that;
// then its Failure is thrown, as every other Failure is at once.
asio::awaitable<Answer> acquire(Claimant& claimant, const Patience& patience,
                                Wakeup& wakeup);

// How often all of a lease is asked for again of which too little was left before
// anything could be done with it, and what to throw after that.
constexpr int most_repeats = 3;
Failure lease_too_short();

}  // namespace dlock
