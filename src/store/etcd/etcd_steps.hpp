// The changes to a lock, each as one transaction. It has no effect if the state that it
// is based on has changed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/answers.hpp"
#include "store/etcd/etcd_messages.hpp"
#include "store/etcd/etcd_queue.hpp"

namespace dlock::etcd {

// The context of a step: the lock, the time by the clock of this host, and the lease of
// the history.
struct StepContext {
  LockName lock;
  WallTime now{};
  std::int64_t day_lease = 0;
};

// Throws a Failure if etcd has sent no such result.
const RangeResult& range_at(const TxnResult& result, std::size_t index);

// Reads everything about a lock at one revision.
TxnRequest look_at(const LockName& lock);

// The same without the records of its runs, which take longest to send and to read.
TxnRequest glance_at(const LockName& lock);

// The same as look_at(), and only the claim's own key, with a write: the deletion of a
// key that never exists. etcd answers a transaction that only reads from the data of one
// member, and some versions from old data (see docs/internals.md). A transaction with a
// write passes the log, so what it reads was true after it was sent. This one changes
// nothing: it adds no revision, wakes no watcher, and is accepted while the database is
// full, which a put is not.
TxnRequest written_look_at(const LockName& lock);
TxnRequest written_look_at_own(const LockName& lock, std::string_view id);

// The claim's own entry in the result of written_look_at_own(); nothing if it no longer
// exists, or is not dlock's. Throws Failure (unreachable) if the result is of another
// kind.
std::optional<QueueEntry> own_entry_from(const LockName& lock, const TxnResult& result);

// The snapshot in the two results from index `first` on. Throws Failure (unreachable) if
// they are of another kind. glance_at() has only one result, and no runs.
LockSnapshot snapshot_from(const LockName& lock, const TxnResult& result,
                           std::size_t first = 0);

// Each of the following returns the lock in its results if it has no effect: see
// snapshot_from().

// Takes the lock for a waiter that is first in the queue. After its own two results come
// those of the lock afterwards. Only if nothing about the other entries matters.
TxnRequest enter_first(const StepContext& at, const QueueEntry& own);

// Takes the lock as decided; `own` may already be in the queue (QueueEntry::created).
TxnRequest enter(const StepContext& at, const LockSnapshot& snapshot, const Claim& claim,
                 const QueueEntry& own, const Decision& decision);

// Enters the queue. The last two results are always the lock.
TxnRequest join(const StepContext& at, const LockSnapshot& snapshot, const Claim& claim,
                const QueueEntry& own, const Decision& decision);

// Takes the lock from its holders; those that can be notified learn `taker`, unless it
// acts by force: then none of them holds the lock any longer. The last two results are
// always the lock.
TxnRequest take_away(const StepContext& at, const std::vector<QueueEntry>& holders,
                     const Taker& taker);

// Updates an entry that has not changed since it was read.
TxnRequest rewrite(const StepContext& at, const QueueEntry& own);

// Sets up a vanished lease again.
TxnRequest set_up_again(const StepContext& at, const LockSnapshot& snapshot,
                        const QueueEntry& own);

// How a lease ends, provided that `own` has not changed.
struct Ending {
  std::optional<RunEnd> end;  // Claimant::release
  std::int64_t kept_on = 0;   // the lease that keeps the lock held; 0: the lock is free
};
TxnRequest give_back(const StepContext& at, const QueueEntry& own, const Ending& ending);

// The number of recorded runs of the lock, from the result of give_back().
std::int64_t runs_kept_after(const TxnResult& given_back);

// Records the end of a run whose lease had vanished, or was freed by force.
TxnRequest record_lost(const StepContext& at, const Runs& known, const QueueEntry& own,
                       const RunEnd& end);

// Deletes these keys.
TxnRequest forget(const std::vector<std::string>& keys);

// Counts a refused claim.
TxnRequest count_refused(const StepContext& at);

}  // namespace dlock::etcd
