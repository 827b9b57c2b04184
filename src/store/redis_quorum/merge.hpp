// Merges the views of a lock on several servers into one. Plain functions on values.
#pragma once

#include <vector>

#include "lock/inspector.hpp"

namespace dlock::redis_quorum {

// A single vote is not a lease, and a single server may be wrong. A holder, a waiter or a
// run is included if a majority may know it, counting the servers that did not reply;
// the last success only if a majority does know it. Of a run's end, what most of them
// recorded counts.

// From the replies of some of `servers` servers; at least one.
LockInfo merged(const std::vector<LockInfo>& told, std::size_t servers);

// The holders that a majority may know, from lists of them.
std::vector<HolderInfo> told_by_most(const std::vector<std::vector<HolderInfo>>& told,
                                     std::size_t servers);

// Newest start first.
std::vector<RunInfo> merged_runs(const std::vector<std::vector<RunInfo>>& told,
                                 std::size_t servers);

}  // namespace dlock::redis_quorum
