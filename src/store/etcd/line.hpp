// The rules of granting where a lock is a line of entries, as plain functions on values.
//
// Who holds the lock follows from the entries in the order in which they came: the first
// one, the first of equal slots, the readers in front. One that has the lock says so in
// its entry (Entry::holds), and keeps it for as long as the entry is there, whoever comes
// or goes. So a claim may act on what it has read although others act at the same time,
// if its own entry is still as it was.
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

// Of how many entries a transaction says something besides its own: etcd takes 128
// operations (--max-txn-ops), and there are up to four of each.
constexpr std::size_t most_in_one_step = 25;

// A lock as it is at one revision.
struct Line {
  std::int64_t revision = 0;
  std::vector<Entry> entries;  // the first that came first
  Runs runs;
};

const Entry* entry_of(const Line& line, std::string_view id);

// Whether it is one that has the lock: it says so, or is not dlock's and stands first.
bool is_holder(const Line& line, const Entry& entry);

// What stands in the way of those who come after.
struct Occupancy {
  unsigned exclusive = 0;
  unsigned shared = 0;
  unsigned slots = 1;  // of the exclusive ones

  void add(const Entry& entry);
  bool admits(const Entry& entry) const;
};
Occupancy occupancy_of(const Line& line);  // by those who hold

// Whether this one does not wait any more, though its entry is still there: a run has
// ended since it came, or goes on, that counts as its own. Which one.
std::optional<RunInfo> dismissed_by(const Line& line, const Entry& waiter);

// Whether it is the turn of `waiter`: nobody who came before it and waits still, nor
// anybody who holds, is in its way.
bool has_its_turn(const Line& line, const Entry& waiter);

// Whether its holder can be told that the lock is taken from it, and gives it back then.
// The lease of any other is just ended.
bool is_told_of_loss(const Entry& holder);

// Those who wait, and are not dismissed, in order.
std::vector<const Entry*> waiting(const Line& line);

// The slots of those who have the lock, or wait for it and came before `id`; nothing if
// there is nobody of dlock's.
std::optional<unsigned> slots_in_use(const Line& line, std::string_view id);

// A slot that no holder has.
unsigned free_slot(const Line& line);

// Whether the lease of this entry, which has vanished, may be set up again: nobody was
// granted or promised the lock since, or has it.
bool can_be_set_up_again(const Line& line, const Entry& lost);

// Whether one whose entry is gone has lost the lock to somebody who has it now.
bool is_taken_over(const Line& line, std::string_view id);

// What a waiter has to hear of: the one key before its own, where one who leaves cannot
// concern it otherwise, or all of the line.
struct Watched {
  std::string id;     // empty: the line
  bool puts = false;  // also what is only changed

  bool operator==(const Watched&) const = default;
};
Watched watched_by(const Line& line, const Entry& waiter);

}  // namespace dlock::etcd
