// The runs of a lock, derived from its state.
#pragma once

#include <optional>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// The run of `holder` that ended with `end`.
RunInfo ended_run(const Holder& holder, const RunEnd& end, Moment now);

// The run of a holder from which `taker` took the lock by force.
RunInfo forced_run(const Holder& holder, const Taker& taker, Moment now);

// The run of a holder that ended without a report.
RunInfo vanished_run(const Holder& holder);

// The run of a holder that is gone: its known end, or vanished.
RunInfo run_of_gone(const Holder& holder);

// Whether its end without a report is recorded. Where the clock ends leases, nobody knows
// whether the command has started.
bool may_have_run(const Holder& holder);

// Whether it is a lease acquired by hand, and not a lock that is only held for min_hold.
bool is_by_hand(const Holder& holder);

// The history entry of a lease by hand that has ended, now or by its expiry.
RunInfo lease_by_hand(const Holder& holder, Moment now);

// Records it as the last run.
void record_run(State& state, const RunInfo& run);

// The run that counts as the claim's own, if there is one. With Queue::join the claim can
// wait for a run to end.
std::optional<RunInfo> counting_run(const State& state, const Dedupe& dedupe, Queue queue,
                                    Moment now);

// Whether the run that was in progress when a waiter left the queue because of it does
// not count after all: it was lost, or is about to be.
bool has_come_to_nothing(const State& state, const RunInfo& run);

// Runs and leases by hand that are in progress, or are over and not yet recorded.
std::vector<RunInfo> runs_of_holders(const State& state, Moment now,
                                     const Liveness& liveness);

}  // namespace dlock::rules
