// What stores keep of the runs of a lock, and in which order they tell of them.
#pragma once

#include <optional>
#include <vector>

#include "lock/lease.hpp"

namespace dlock {

// Of each lock, runs that are over; shared/runs.lua has the same numbers.
constexpr std::size_t runs_kept = 20;
constexpr std::chrono::hours run_retention{30 * 24};

// Those of them that are no runs, but leases that were held by hand, so that these leave
// room for runs.
constexpr std::size_t leases_by_hand_kept = 10;

// The outcome of a lease that was acquired, and not by a run.
constexpr const char* by_hand = "by hand";

inline bool is_by_hand(const RunInfo& run) { return run.outcome == by_hand; }

// Whether it has not ended, as far as is known.
bool goes_on(const RunInfo& run);

// Whether its command exited with 0, and had the lock to its end.
bool is_success(const RunInfo& run);

// The last one of `runs` that was a success, or `known`, whichever ended later.
std::optional<RunInfo> last_success_of(const std::vector<RunInfo>& runs,
                                       const std::optional<RunInfo>& known);

// Adds what is over to the front of `runs`, and drops what is beyond those that are kept.
void add_to_history(std::vector<RunInfo>& runs, const RunInfo& run);

// The run that a holder is, with what it has taken so far; for a detached one what it is
// instead. Nothing for one that is foreign, or held on though its run is over.
std::optional<RunInfo> run_of(const HolderInfo& holder);

// Those of `runs` that are to be told of at `now`, the last that started first. Each is
// there once.
std::vector<RunInfo> as_history(std::vector<RunInfo> runs, WallTime now);

}  // namespace dlock
