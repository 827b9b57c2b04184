// Derives the events of a lock, for `dlock watch`.
#pragma once

#include <optional>
#include <vector>

#include "lock/answers.hpp"
#include "lock/history.hpp"
#include "lock/lease.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

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
