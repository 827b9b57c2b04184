// A holder or waiter of a lock as etcd stores it: a key in the queue of the lock, ordered
// by creation revision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "rules/moment.hpp"
#include "rules/state.hpp"
#include "store/etcd/requests.hpp"

namespace dlock::etcd {

// The state that an entry records. A waiting entry may already be promised the lock, if
// its turn has come; it records that as soon as it notices.
enum class Standing {
  waits,
  holds,
  broken,  // holds, but the lease was broken
  ended,   // its run is over, but the lock stays held until the lease ends
};

struct Entry {
  std::string id;  // its key without the lock's prefix
  std::int64_t created = 0;
  std::int64_t modified = 0;
  std::int64_t lease = 0;

  bool foreign = false;  // not written by dlock: exclusive, everything else is unknown
  Standing standing = Standing::waits;
  Mode mode = Mode::exclusive;
  unsigned slots = 1;
  unsigned slot = 0;
  Fence set_up_again;             // the fence of a reclaimed lease; otherwise 0
  WallTime since{};               // when it began to wait or hold
  std::int64_t ttl = 0;           // of its lease, in seconds
  std::int64_t acquired_ttl = 0;  // if a renewal has set another one
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
  std::optional<Taker> taken_by;  // who broke it, if known

  Fence fence() const;
  bool holds() const { return standing != Standing::waits; }

  // Whether other claims can be deduplicated against its run (Claim::dedupe).
  bool counts() const { return attached && mode == Mode::exclusive && slots == 1; }
};

// The entry of `claim` as a waiter since `now`.
Entry entry_for(const Claim& claim, WallTime now);

// The value of its key.
std::string text_of(const Entry& entry);

// Foreign if dlock did not write the value: anyone may write there.
Entry entry_from(const KeyValue& pair, std::string_view prefix);

// All entries below `prefix`, oldest first.
std::vector<Entry> entries_from(const std::vector<KeyValue>& pairs,
                                std::string_view prefix);

// For the rules: the token of the claim whose entry has this id, the entry as a holder or
// waiter, and a moment of which the clock of this host alone is known.
Token token_of(std::string_view id);
rules::Holder as_holder(const Entry& entry);
rules::Waiter as_waiter(const Entry& entry);
rules::Moment moment_of(WallTime now);

// This process, as the one that takes a lock from its holder.
Taker taker(bool replaces);

}  // namespace dlock::etcd
