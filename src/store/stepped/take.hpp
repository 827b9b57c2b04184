// One step of a lock: read its state, apply a rule, and write it if nobody was faster.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "rules/liveness.hpp"
#include "store/stepped/state_store.hpp"
#include "util/failure.hpp"

namespace dlock::stepped {

// What a step has read, answered and written.
template <typename Answer>
struct StepResult {
  Answer answer{};
  StateStore::Snapshot read;
  StateStore::Change change;
};

// What a step does to a state, and answers.
template <typename Answer>
using Rule = std::function<Answer(rules::State&, rules::Moment, const rules::Liveness&,
                                  rules::Consequences&, StateStore::Change&)>;

// Whether nothing but the number of refused claims differs.
bool differs_only_in_count(const rules::State& before, const rules::State& after);

// For take(): prepares a state for a rule, and completes a change by what follows from
// it: the history, and whom to wake.
void prepare(StateStore::Change& change, const StateStore::Snapshot& read);
void complete(StateStore::Change& change, const rules::Consequences& then);

// Applies `rule` and writes the result. If another step is faster, the rule is applied
// again to the new state, which nobody else can change meanwhile: so a distant client
// does not lose for ever. Only a count is worth neither a repetition nor a failure.
//
// A step that changes nothing writes nothing, except if an earlier step of the same claim
// may be `unanswered`: its request may still be on its way. As that compares the version,
// it does nothing once there was another step.
template <typename Answer>
asio::awaitable<StepResult<Answer>> take(StateStore& states, LockName lock,
                                         Rule<Answer> rule, Clock::time_point until,
                                         bool& unanswered, Wakeup& wakeup) {
  using Access = StateStore::Access;
  for (auto access = Access::optimistic;; access = Access::exclusive) {
    StepResult<Answer> step;
    step.read = co_await states.read(lock, access, until, wakeup);
    prepare(step.change, step.read);
    rules::Consequences then;
    const rules::ClockLiveness liveness(step.read.now);
    step.answer = rule(step.change.state, step.read.now, liveness, then, step.change);
    complete(step.change, then);
    if (!unanswered && step.change.state == step.read.state) {
      if (access == Access::exclusive) co_await states.leave(until, wakeup);
      co_return step;
    }
    const bool only_counts =
        !unanswered && differs_only_in_count(step.read.state, step.change.state);
    bool is_done = false;
    try {
      unanswered = !only_counts;
      is_done = co_await states.write(lock, step.read, step.change, until, wakeup);
      // Also if not: then the version is no longer the one that an earlier request read.
      unanswered = false;
    } catch (const Failure&) {
      if (!only_counts) throw;
    }
    if (is_done || only_counts) co_return step;
  }
}

}  // namespace dlock::stepped
