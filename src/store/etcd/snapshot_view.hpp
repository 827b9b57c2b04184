// A snapshot as an answer to a claim, and as `status` shows it.
#pragma once

#include "lock/answers.hpp"
#include "store/etcd/queue_rules.hpp"

namespace dlock::etcd {

// Busy, for this snapshot; place 0 if `own` is null.
Busy busy(const LockSnapshot& snapshot, const Entry* own, WallTime now);

// The lock as `status` shows it, except when leases end.
LockInfo info_of(const LockSnapshot& snapshot, const LockName& lock, WallTime now);

}  // namespace dlock::etcd
