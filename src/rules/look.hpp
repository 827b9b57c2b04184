// Describes the state of a lock, and for `dlock watch` what has changed in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lock/answers.hpp"
#include "lock/history.hpp"
#include "lock/lease.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// The state as `status` shows it, without dead holders and waiters, which are not
// removed.
LockInfo info_of(const State& state, const LockName& lock, Moment now,
                 const Liveness& liveness);
HolderInfo info_of(const Holder& holder, Moment now);

// Sets the slots of a lock whose holders and waiters are known, and how many of them are
// free. A lock that is not in use has one.
void set_slots(LockInfo& lock, unsigned slots);

// The answer to a claim that is not granted. Its place is 0 if it is not in the queue.
Busy busy_answer(const State& state, const Token& token, Moment now);

// Whether there are dead or expired holders that are not yet removed.
bool is_untidy(const State& state, Moment now, const Liveness& liveness);

// Who freed the lock of the run with this fence by force, if anyone did.
std::optional<Taker> forced_by(const State& state, Fence fence);

// What the answer to a claim from this host would be, if waiting cannot change it: a run
// counts as its own, or an outer run holds the lock. Nothing if only asking can tell.
std::optional<Answer> foregone_answer(const LockInfo& lock, const Claim& claim,
                                      Queue queue, const std::string& host);

// Whether the state no longer matters and can be removed. There may be dead entries that
// are never removed.
bool is_out_of_use(const State& state, Moment now, const Liveness& liveness);

// Why a holder no longer holds the lock, if it did not just release it.
struct Cause {
  std::optional<Token> released_by;
  std::optional<RunEnd> end;  // of its run
  std::vector<Fence> broken;
  std::optional<Taker> taken_by;  // who broke them
};

// The events between two states of a lock, in order.
std::vector<Event> events_between(const State& before, const State& after,
                                  const LockName& lock, const Cause& cause, Moment now);

// The event of a run that was stopped because its lease was taken or had vanished.
Event lost_event(const Holder& holder, const LockName& lock, const State& state,
                 Moment now);

}  // namespace dlock::rules
