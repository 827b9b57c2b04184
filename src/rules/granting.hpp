// The rules of granting, as plain functions on the state of one lock.
//
// Every store follows them. No function here reads a clock, a file or a process: times
// and the liveness of processes are arguments, and the sessions to wake are part of the
// result.
#pragma once

#include <optional>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "rules/keeping.hpp"
#include "rules/liveness.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// A claim and the store's knowledge of its process.
struct Ask {
  const Claim& claim;
  const Party& party;
  Queue queue = Queue::stay_out;
  // Where the clock ends leases and places, and not the kernel: how long the place of the
  // claim lasts from now.
  std::optional<milliseconds> place_lasts = std::nullopt;
};

// Grants the lock, or returns why not; see Claimant::ask. First removes dead holders,
// lapses promises that were made to dead waiters or not taken in time, and promises a
// free lock to the first waiters that fit, skipping stopped ones; then it considers the
// claim.
Answer ask(State& state, const Ask& ask, Moment now, const Liveness& liveness,
           Consequences& consequences);

}  // namespace dlock::rules
