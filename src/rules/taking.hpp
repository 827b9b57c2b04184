// Taking the lock from those who hold it, and the place in line from an older claim.
#pragma once

#include <vector>

#include "lock/lease.hpp"
#include "rules/lives.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// Takes the lock from the holders that have one of `fences`; see Store::break_leases.
// They are told that it was `taker`, and returned as they were.
std::vector<Holder> break_leases(State& state, const std::vector<Fence>& fences,
                                 const TakenBy& taker, Moment now, const Lives& lives,
                                 Consequences& consequences);

std::vector<Fence> fences_of(const std::vector<Holder>& holders);

// Takes the lock from all holders but outer runs of the claim, which is that of `taker`,
// and notes them with the consequences, as they were. Whether there are any.
bool replace_holders(State& state, const Claim& claim, const Party& taker, Moment now,
                     Consequences& consequences);

// As holders are told of one whose claim takes the lock.
TakenBy replacing(const Party& taker);

// The first that waits to take the lock from whoever is granted it; null if there is
// none. Not one that is passed over, who would keep everybody from the lock for as long
// as it is stopped; nor one that was promised the lock itself.
const Waiter* replacer(const State& state, Moment now, const Lives& lives);

// Has those who wait to take the lock from its holders ask.
void wake_replacers(const State& state, Consequences& consequences);

// Takes those out of the queue that give way to a newer claim, which is that of `newer`,
// and counts those that live. Whether there were any.
bool supersede(State& state, const Party& newer, const Lives& lives,
               Consequences& consequences);

}  // namespace dlock::rules
