#pragma once

#include <vector>

#include "cli/args/options.hpp"
#include "lock/lease.hpp"

namespace dlock {

// Returns the locks that `options` select, in the order that they ask for. With --live,
// held locks come first, then locks with waiters, because the window may be too small for
// all of them.
std::vector<LockInfo> selected(std::vector<LockInfo> locks, const ListOptions& options);

}  // namespace dlock
