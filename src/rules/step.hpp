// A step on the state of one lock: what it is given, and what follows from it.
#pragma once

#include <vector>

#include "rules/state.hpp"

namespace dlock::rules {

// The actions that follow from a change, to be carried out after it is stored.
struct Consequences {
  std::vector<Session>
      wake;  // waiters with a promise, and first waiters with outdated information
  std::vector<Session> dead;  // sessions whose sockets have to be removed
  // For the history: runs whose last process vanished without a report, those whose lock
  // was freed by force, and leases of acquire that are over.
  std::vector<RunInfo> vanished;
  std::vector<Holder> broken;  // holders that a claim took the lock from, as they were
};

struct Step {
  State& state;
  Moment now;
  const Liveness& liveness;
  Consequences& then;
};

// Removes holders whose lease has ended, and records their runs as vanished, except
// `self`, which is about to report its end.
void remove_dead_holders(const Step& step, const Token* self = nullptr);

// Removes answered waiters that died before they read their answer.
void remove_dead_answered(const Step& step);

}  // namespace dlock::rules
