// Which locks `list` shows, and in which order.
#pragma once

#include <vector>

#include "cli/options.hpp"
#include "lock/lease.hpp"

namespace dlock {

// Leaves those that `options` want, in the order that they want. What is --live has those
// first that are held, then those that are awaited: a window may be too small for all.
std::vector<LockInfo> arranged(std::vector<LockInfo> locks, const ListOptions& options);

}  // namespace dlock
