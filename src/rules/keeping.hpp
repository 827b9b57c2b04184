// How a lease that the clock of its store ends is kept: renewed, restored, left, or
// reported as lost.
//
// `granted` is the holder as it was when the claim was granted the lock. All runs that
// these functions record are in the consequences, for the history.
#pragma once

#include <optional>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "rules/liveness.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// Why the lease is lost; nothing if it holds. Leases that are over do not count, though
// nobody may have removed them yet.
std::optional<Loss> loss_of(const State& state, const Holder& granted, Moment now,
                            const Liveness& liveness);

// Renews an attached lease, or restores it if the claim wants that and nobody else was
// granted or promised the lock since; see Claimant::renew.
Renewal renew_lease(State& state, const Claim& claim, const Holder& granted, Moment now,
                    const Liveness& liveness, Consequences& consequences);

// Releases the lease of the claim, or its place in the queue; see Claimant::release.
// `granted` is null if this client was not granted the lock.
Release release_lease(State& state, const Claim& claim, const Holder* granted,
                      const std::optional<RunEnd>& end, Moment now,
                      const Liveness& liveness, Consequences& consequences);

// Ends leases and places no later than if they began now: the clock may have been set
// back.
void limit_to_lengths(State& state, Moment now);

}  // namespace dlock::rules
