// The rules of granting, as plain functions on the state of one lock.
//
// Every store follows them. No function here reads a clock, a file or a process: times
// and the liveness of processes are arguments, and the sessions to wake are part of the
// result.
#pragma once

#include <optional>
#include <vector>

#include "lock/answers.hpp"
#include "lock/command_process.hpp"
#include "lock/lease.hpp"
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

// Removes `token` from the holders and waiters, and promises what became free. If it was
// a holder, `end` becomes the last run.
Release release(State& state, const Token& token, const std::optional<RunEnd>& end,
                Moment now, const Liveness& liveness, Consequences& consequences);

// Records the end of the run of `holder`, which no longer holds the lock. That the lock
// was freed by force is kept.
void record_loss(State& state, const Holder& holder, const RunEnd& end, Moment now);

// The ttl to which a renewal sets the lease of this claim; see Claim::keeps_ttl.
milliseconds ttl_to_set(State& state, const Claim& claim);

// Extends the lease of the holder `token` to `lasts` from now; see Claimant::renew. A
// lease that lasts as long as its processes does not change.
Renewal renew(State& state, const Token& token, milliseconds lasts, Moment now,
              const Liveness& liveness, Consequences& consequences);

// Removes holders that are gone, and promises what became free.
void tidy(State& state, Moment now, const Liveness& liveness, Consequences& consequences);

// Records the command of the holder `token`; does nothing if it is not a holder.
void record_command(State& state, const Token& token, const CommandProcess& command);

}  // namespace dlock::rules
