// Decides whether a claim that is not in the queue can have the lock, or wait for it.
#pragma once

#include <optional>

#include "rules/liveness.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// Whether the claim can be granted the lock now: there is room, and it overtakes nobody.
bool can_enter(const State& state, const Claim& claim, Moment now);

// Whether the holder is an outer run of the claim.
bool is_outer_run(const Claim& claim, const Holder& holder);

// The grant of an outer run for which the claim would wait forever.
std::optional<Fence> blocking_outer_run(const State& state, const Claim& claim);

// Whether the queue is too long for the claim (Claim::max_queue). Waiters that it would
// supersede do not count, nor do dead ones.
bool is_full(const State& state, const Claim& claim, const Liveness& liveness);

}  // namespace dlock::rules
