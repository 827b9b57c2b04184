// A line of entries as those see it who ask for the lock, or look at it.
#pragma once

#include "lock/answers.hpp"
#include "store/etcd/line.hpp"

namespace dlock::etcd {

// Busy, as this line is; place 0 if `own` is null.
Busy busy(const Line& line, const Entry* own, WallTime now);

// The lock as `status` shows it, but for when leases end.
LockInfo info_of(const Line& line, const LockName& lock, WallTime now);

}  // namespace dlock::etcd
