// What stores keep of the runs of a lock, and in which order they tell of them.
#pragma once

#include <optional>
#include <vector>

#include "lock/lease.hpp"

namespace dlock {

// Of each lock, runs that are over; shared/runs.lua has the same numbers.
constexpr std::size_t runs_kept = 20;
constexpr std::chrono::hours runs_kept_for{30 * 24};

// The run that a holder is, with what it has taken so far; nothing for one that is none:
// detached, foreign, or held on though its run is over.
std::optional<RunInfo> run_of(const HolderInfo& holder);

// Those of `runs` that are to be told of at `now`, the last that started first. Each is
// there once.
std::vector<RunInfo> as_history(std::vector<RunInfo> runs, WallTime now);

}  // namespace dlock
