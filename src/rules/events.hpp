// What happens to a lock, for those who watch it.
#pragma once

#include <optional>
#include <vector>

#include "lock/event.hpp"
#include "lock/store.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// Why a holder may be gone, if it did not just end.
struct Cause {
  std::optional<Token> released_by;
  std::optional<RunEnd> end;  // of its run
  std::vector<Fence> broken;
  std::optional<TakenBy> taken_by;  // who has broken them
};

// What has happened to a lock between two of its states, in order.
std::vector<Event> events_between(const State& before, const State& after,
                                  const LockName& lock, const Cause& cause, Moment now);

// That a run was ended whose lease somebody else had taken, or nobody knew any more.
Event lost_event(const Holder& holder, const LockName& lock, const State& state,
                 Moment now);

}  // namespace dlock::rules
