// One who holds a lock or waits for it, as etcd keeps it: a key in the line of the lock,
// in order of the revisions in which they came.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "store/etcd/requests.hpp"

namespace dlock::etcd {

// What an entry says of itself. One that waits may have the lock all the same, if its
// turn has come: it was promised it, and says so when it knows.
enum class Standing {
  waits,
  holds,
  broken,  // holds, and was told to end
  ended,   // its run is over, and the lock is held on until the lease ends
};

struct Entry {
  std::string id;  // what its key has behind those of the lock
  std::int64_t created = 0;
  std::int64_t modified = 0;
  std::int64_t lease = 0;

  bool foreign = false;  // not dlock's: exclusive, and nothing else is known
  Standing standing = Standing::waits;
  Mode mode = Mode::exclusive;
  unsigned slots = 1;
  unsigned slot = 0;
  Fence set_up_again;    // the fence of a lease that had vanished; else 0
  WallTime since{};      // it waits, or holds
  std::int64_t ttl = 0;  // of its lease, in seconds
  bool attached = true;
  bool for_pid = false;
  bool supersedes = false;
  bool replaces = false;
  std::optional<Dedupe> dedupe;
  std::string host;
  pid_t pid = 0;
  std::string user;
  std::string label;
  std::vector<std::string> command;
  std::optional<Taker> taken_by;  // of one that is broken, if that is known

  Fence fence() const;
  bool holds() const { return standing != Standing::waits; }

  // Whether its run can count for others (Claim::dedupe).
  bool counts() const { return attached && mode == Mode::exclusive && slots == 1; }
};

// How `claim` stands in line; as one that waits since `now`.
Entry entry_for(const Claim& claim, WallTime now);

// As the value of its key.
std::string text_of(const Entry& entry);

// Foreign if the value is not one of dlock's: anybody may write there.
Entry entry_from(const KeyValue& pair, std::string_view line);

// All that stand in `line`, the first that came first.
std::vector<Entry> entries_from(const std::vector<KeyValue>& pairs,
                                std::string_view line);

// As `status` shows them.
HolderInfo holder_info(const Entry& entry, WallTime now);
WaiterInfo waiter_info(const Entry& entry, WallTime now);

// Who takes a lock from its holder, as this process is.
Taker taker(bool replaces);

}  // namespace dlock::etcd
