// What several servers show of a lock, as one. Plain functions on values.
#pragma once

#include <vector>

#include "lock/inspector.hpp"

namespace dlock::redis_quorum {

// In all of these a vote is no lease: a holder, or a run that goes on, vanished or was a
// lease by hand, is one that most servers may know of, if those tell of it that do not
// answer. One that has ended and said how is one if any knows of it.

// What those of `servers` say that have answered; at least one.
LockInfo merged(const std::vector<LockInfo>& told, std::size_t servers);

// The last that started comes first.
std::vector<RunInfo> merged_runs(const std::vector<std::vector<RunInfo>>& told,
                                 std::size_t servers);

}  // namespace dlock::redis_quorum
