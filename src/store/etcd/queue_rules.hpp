// The rules of granting for a lock that is a queue of entries, as plain functions on
// values.
//
// The order of the entries determines the holders: the first entry, the first entries of
// equal slots, or the readers in front. A holder records that in its entry (Entry::holds)
// and keeps the lock while the entry exists, whatever other entries come or go. So a
// claim may act on a snapshot although others change the lock concurrently, provided that
// its own entry has not changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/lease.hpp"
#include "store/etcd/entry.hpp"
#include "store/etcd/run_record.hpp"

namespace dlock::etcd {

// How many other entries a transaction may change: etcd accepts 128 operations
// (--max-txn-ops), and each entry takes up to four.
constexpr std::size_t most_in_one_step = 25;

// A lock at one revision.
struct LockSnapshot {
  std::int64_t revision = 0;
  std::vector<Entry> entries;  // oldest first
  Runs runs;
};

const Entry* entry_of(const LockSnapshot& snapshot, std::string_view id);

// Whether the entry holds the lock: it says so, or it is foreign and first.
bool is_holder(const LockSnapshot& snapshot, const Entry& entry);

// What earlier entries occupy of the lock.
struct Occupancy {
  unsigned exclusive = 0;
  unsigned shared = 0;
  unsigned slots = 1;  // of the exclusive entries

  void add(const Entry& entry);
  bool admits(const Entry& entry) const;
};
Occupancy occupancy_of(const LockSnapshot& snapshot);  // by the holders

// The run against which this waiter is deduplicated: it has ended since the waiter came,
// or is running. Nothing if there is none.
std::optional<RunInfo> deduplicated_by(const LockSnapshot& snapshot, const Entry& waiter);

// Whether it is the turn of `waiter`: no holder and no earlier waiter blocks it.
bool has_its_turn(const LockSnapshot& snapshot, const Entry& waiter);

// Whether this holder notices when its lease is broken, and releases the lock itself. The
// lease of any other holder is revoked.
bool is_told_of_loss(const Entry& holder);

// The waiters that are not deduplicated, in order.
std::vector<const Entry*> waiting(const LockSnapshot& snapshot);

// The slots of the holders and of the waiters before `id`; nothing if dlock wrote none of
// these entries.
std::optional<unsigned> slots_in_use(const LockSnapshot& snapshot, std::string_view id);

// A slot that no holder uses.
unsigned free_slot(const LockSnapshot& snapshot);

// Whether the vanished lease of this entry may be set up again: no other claim holds the
// lock, or was granted or promised it since.
bool can_be_set_up_again(const LockSnapshot& snapshot, const Entry& lost);

// Whether another claim now holds the lock that the claim with this id has lost.
bool is_taken_over(const LockSnapshot& snapshot, std::string_view id);

// What a waiter must watch: only the key before its own if no other departure can affect
// it, otherwise the whole queue.
struct Watched {
  std::string id;     // empty: the whole queue
  bool puts = false;  // also changes, not only deletions

  bool operator==(const Watched&) const = default;
};
Watched watched_by(const LockSnapshot& snapshot, const Entry& waiter);

}  // namespace dlock::etcd
