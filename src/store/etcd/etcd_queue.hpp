// A lock in etcd: a queue of entries, decided on by the rules of src/rules.
//
// The order of the entries determines the holders: the first entry, the first entries of
// equal slots, or the readers in front. A waiter whose turn has come is promised the lock
// by its position alone. A holder records that in its entry (QueueEntry::holds) and keeps
// the lock while the entry exists, whatever other entries come or go. A claim may
// therefore act on a snapshot although others change the lock concurrently, provided that
// its own entry has not changed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lock/answers.hpp"
#include "lock/history.hpp"
#include "rules/state.hpp"
#include "store/etcd/etcd_entry.hpp"
#include "store/etcd/etcd_runs.hpp"

namespace dlock::etcd {

// How many other entries a transaction may change: etcd accepts 128 operations
// (--max-txn-ops), and each entry takes up to four.
constexpr std::size_t most_in_one_step = 25;

// A lock at one revision.
struct LockSnapshot {
  std::int64_t revision = 0;
  std::vector<QueueEntry> entries;  // oldest first
  Runs runs;
};

const QueueEntry* entry_of(const LockSnapshot& snapshot, std::string_view id);

// Whether the entry holds the lock: it says so, or it is foreign and first.
bool is_holder(const LockSnapshot& snapshot, const QueueEntry& entry);

// The state of the lock for the rules, as the claim with this id sees it: waiters behind
// it do not determine the number of slots; `slots` is that of an unused lock. Waiters for
// which a run counts have been answered.
rules::State state_of(const LockSnapshot& snapshot, std::string_view id = {},
                      unsigned slots = 1);

// The decision on a claim: the answer, or what it has to write first.
struct Decision {
  enum class Kind {
    answer,  // write nothing, except to leave the queue if it is there
    held,    // it already has the lock
    enter,   // write an entry that holds the lock
    join,    // write an entry that waits
    wait,    // keep its place in the queue
  };

  Kind kind = Kind::answer;
  std::optional<Answer> answer;      // with `answer` and `wait`
  bool counts_as_refused = false;    // Queue::refuse, Claim::max_queue
  unsigned slot = 0;                 // with `enter`
  Fence given_fence;                 // with `enter`: see QueueEntry
  std::vector<QueueEntry> give_way;  // waiters that this claim supersedes
  std::vector<QueueEntry> lose;      // holders from which it takes the lock
  std::optional<Taker> taken_by;     // with `enter`: a waiter takes the lock at once
};

// Decides on the claim whose entry has, or would have, this id. `now` is by the clock of
// this host: etcd does not report its time.
Decision decide(const LockSnapshot& snapshot, const Claim& claim, std::string_view id,
                Queue queue, WallTime now);

// The holders that are still to lose the lock for this order, as many as fit into one
// transaction, and all that it means, as `status` shows them.
struct BreakDecision {
  std::vector<QueueEntry> lose;
  std::vector<HolderInfo> meant;
};
BreakDecision decide_on_break(const LockSnapshot& snapshot, const Break& order,
                              WallTime now);

// The outer run of a nested reader, which lets it pass a waiting writer. Null if there is
// none, or if etcdctl is in the queue.
const QueueEntry* outer_reader(const LockSnapshot& snapshot, const Claim& claim);

// The waiter other than `id` that takes the lock from its next holder (--replace), if
// there is one. A waiter whose own turn has come does not count.
std::optional<Taker> replacer(const LockSnapshot& snapshot, std::string_view id);

// Whether the vanished lease of this entry may be set up again: no other claim holds the
// lock, or was granted or promised it since. A cluster that was restored from an older
// snapshot counts its revisions, which fences are, from there.
bool can_be_set_up_again(const LockSnapshot& snapshot, const QueueEntry& lost);

// What a waiter must watch: only the key before its own if no other departure can affect
// it, otherwise the whole queue.
struct WatchedKeys {
  std::string id;     // empty: the whole queue
  bool puts = false;  // also changes, not only deletions

  bool operator==(const WatchedKeys&) const = default;
};
WatchedKeys watched_by(const LockSnapshot& snapshot, const QueueEntry& waiter);

// The lock as `status` shows it, except when leases end, and its history.
LockInfo info_of(const LockSnapshot& snapshot, const LockName& lock, WallTime now);
std::vector<RunInfo> history_of(const LockSnapshot& snapshot, WallTime now);

// The changes of one revision to the records of runs.
struct RunChanges {
  std::vector<PastRun> ended;          // runs whose end was recorded
  std::set<std::string> closed;        // ids of entries whose grants were released
  std::map<std::string, Taker> taken;  // by ids of holders that were not notified
};

// The events of a lock between two revisions, in order, for dlock watch. `now` becomes
// their time.
std::vector<Event> events_between(const LockSnapshot& before, const LockSnapshot& after,
                                  const RunChanges& aside, const LockName& lock,
                                  WallTime now);

}  // namespace dlock::etcd
