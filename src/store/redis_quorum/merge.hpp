// Merges the views of a lock on several servers into one. Plain functions on values.
#pragma once

#include <vector>

#include "lock/inspector.hpp"

namespace dlock::redis_quorum {

// A single vote is not a lease. A holder, or a run that is running, has vanished or was a
// detached lease, is included if a majority may know it, counting the servers that did
// not reply. A run with a recorded end is included if any server knows it.

// From the replies of some of `servers` servers; at least one.
LockInfo merged(const std::vector<LockInfo>& told, std::size_t servers);

// Newest start first.
std::vector<RunInfo> merged_runs(const std::vector<std::vector<RunInfo>>& told,
                                 std::size_t servers);

}  // namespace dlock::redis_quorum
