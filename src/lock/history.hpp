// What stores keep of the runs of a lock, and how they are ordered.
#pragma once

#include <optional>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"

namespace dlock {

// The number of finished runs kept per lock, and for how long; shared/runs.lua has the
// same numbers.
constexpr std::size_t runs_kept = 20;
constexpr std::chrono::hours run_retention{30 * 24};

// How many of them may be leases that were held by hand, so that these leave room for
// runs.
constexpr std::size_t leases_by_hand_kept = 10;

// The outcome of a lease that was acquired by hand.
constexpr const char* by_hand = "by hand";

// The outcome of a run that lost its lock.
constexpr const char* lost_run = "lost";

inline bool is_by_hand(const RunInfo& run) { return run.outcome == by_hand; }

// Records how it ended, except when.
void set_end(RunInfo& run, const RunEnd& end);

// Whether the run has not ended, as far as is known.
bool is_running(const RunInfo& run);

// Whether the command exited with 0 and held the lock to its end.
bool is_success(const RunInfo& run);

// The most recent success among `runs` and `known`, by when it ended.
std::optional<RunInfo> last_success_of(const std::vector<RunInfo>& runs,
                                       const std::optional<RunInfo>& known);

// The reason of a lost run whose lock was freed without waiting for it (Break::by_force),
// "broken by force by USER@HOST"; and the inverse, which returns nothing for any other.
std::string forced_reason(const Taker& taker);
std::optional<Taker> forced_by(const RunInfo& run);

// Makes the end of a lost run one whose lock was freed by force, if the record of it that
// is replaced says so.
void keep_forced_reason(const RunInfo& former, RunInfo& run);

// Adds a finished run to the front of `runs`, and drops those beyond the limits.
void add_to_history(std::vector<RunInfo>& runs, const RunInfo& run);

// The run of a holder, with its duration so far; for a detached holder its lease by hand.
// Nothing for a foreign holder, or for one whose run has ended.
std::optional<RunInfo> run_of(const HolderInfo& holder);

// The runs to list at `now`, without duplicates, the last started first.
std::vector<RunInfo> as_history(std::vector<RunInfo> runs, WallTime now);

}  // namespace dlock
