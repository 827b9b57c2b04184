// What becomes of a lease after its grant: it is renewed, released, or lost.
#pragma once

#include <optional>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "rules/step.hpp"

namespace dlock::rules {

// Removes `token` from the holders and waiters, and promises what became free. If it was
// a holder, `end` becomes the last run.
Release release(const Step& step, const Token& token, const std::optional<RunEnd>& end);

// The ttl to which a renewal sets the lease of this claim; see Claim::keeps_ttl.
milliseconds ttl_to_set(State& state, const Claim& claim);

// Extends the lease of the holder `token` to `lasts` from now; see Claimant::renew. A
// lease that lasts as long as its processes does not change.
Renewal renew(const Step& step, const Token& token, milliseconds lasts);

// Removes holders that are dead or have expired, and promises what became free.
void tidy(const Step& step);

// Records the command of the holder `token`; does nothing if it is not a holder.
void record_command(State& state, const Token& token, const CommandProcess& command);

// In the rest, `granted` is the holder as it was when the claim was granted the lock. All
// runs that these functions record are in the consequences, for the history.

// Why the lease is lost; nothing if it holds. Leases that are over do not count, even if
// they are not removed yet.
std::optional<Loss> loss_of(const State& state, const Holder& granted, Moment now,
                            const Liveness& liveness);

// Who took the lock from this holder, if anyone did.
std::optional<Taker> taker_from(const State& state, const Holder& granted);

// Renews an attached lease, or restores it if the claim wants that and no other claim was
// granted or promised the lock since; see Claimant::renew.
Renewal renew_lease(const Step& step, const Claim& claim, const Holder& granted);

// Whether the vanished lease of a claim may be restored: no other claim holds the lock,
// or was granted or promised it since. The leases that `known` names had vanished as
// well.
bool can_be_restored(const State& state, const Claim& claim, const Holder& granted,
                     Moment now, const Restored& known = {});

// Releases the lease of the claim, or its place in the queue; see Claimant::release.
// `granted` is null if this client was not granted the lock.
Release release_lease(const Step& step, const Claim& claim, const Holder* granted,
                      const std::optional<RunEnd>& end);

// Ends leases and places no later than if they began now: the clock may have been set
// back.
void limit_to_lengths(State& state, Moment now);

}  // namespace dlock::rules
