// The rules of granting, as plain functions on the state of one lock.
//
// Every store follows them. No function here reads a clock, a file or a process: times
// and the liveness of processes are arguments, and the sessions to wake are part of the
// result.
#pragma once

#include <optional>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "rules/keeping.hpp"
#include "rules/step.hpp"

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
Answer ask(const Step& step, const Ask& ask);

// Takes the lock from the holders that have one of `fences`; see Store::break_leases.
// They are notified that `taker` did so, and are returned as they were. By force, they no
// longer hold it, and their runs are recorded as lost.
std::vector<Holder> break_leases(const Step& step, const std::vector<Fence>& fences,
                                 const Taker& taker);

std::vector<Fence> fences_of(const std::vector<Holder>& holders);

// Takes the lock from all holders except outer runs of the claim, whose owner is `taker`,
// and adds them to the consequences as they were. Returns whether there were any.
bool replace_holders(const Step& step, const Claim& claim, const Party& taker);

// The taker that holders are notified of when a claim takes the lock.
Taker replacing(const Party& taker);

// The first waiter that takes the lock from every new holder (Claim::replaces); null if
// there is none. Skips waiters that let a promise lapse, which would keep all others from
// the lock for as long as they are stopped, and waiters that were promised the lock.
const Waiter* replacer(const State& state, Moment now, const Liveness& liveness);

// Removes the waiters that the newer claim of `newer` supersedes, and counts those that
// are alive. Returns whether there were any.
bool supersede(const Step& step, const Party& newer);

}  // namespace dlock::rules
