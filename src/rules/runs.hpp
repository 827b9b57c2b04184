// The runs of a lock, as its state tells them.
#pragma once

#include <optional>
#include <vector>

#include "lock/store.hpp"
#include "rules/lives.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// The run of `holder`, which has ended so.
RunInfo ended_run(const Holder& holder, const RunEnd& end, Moment now);

// That of a holder that ended without anybody to say how.
RunInfo vanished_run(const Holder& holder);

// Whether it was granted by hand, and is not only held on.
bool is_by_hand(const Holder& holder);

// What the history tells of one that was, and has ended: now, or by the clock.
RunInfo lease_by_hand(const Holder& holder, Moment now);

// Makes it the last run.
void note_run(State& state, const RunInfo& run);

// The run that counts as the one of a claim, if there is one. With Queue::join the claim
// can wait for how one ends.
std::optional<RunInfo> counting_run(const State& state, const Dedupe& dedupe, Queue queue,
                                    Moment now);

// What goes on, and what is over though nobody has noted it yet: runs, and leases that
// were granted by hand.
std::vector<RunInfo> runs_of_holders(const State& state, Moment now, const Lives& lives);

}  // namespace dlock::rules
