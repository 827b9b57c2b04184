// Whether a claim that has no place in the queue can have the lock, or wait for it.
#pragma once

#include <optional>

#include "rules/lives.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// Whether it can have the lock now: there is room, and it overtakes nobody.
bool can_enter(const State& state, const Claim& claim, Moment now);

// Whether the holder is an outer run of the claim.
bool is_outer_run(const Claim& claim, const Holder& holder);

// The grant of an outer run that the claim would wait for without end.
std::optional<Fence> blocking_outer_run(const State& state, const Claim& claim);

// Whether so many wait that the claim does not want to. Those that it would supersede do
// not count, nor do the dead.
bool is_full(const State& state, const Claim& claim, const Lives& lives);

}  // namespace dlock::rules
