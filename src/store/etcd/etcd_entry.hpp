// The keys of a lock in etcd, and what is stored there for a holder or waiter.
//
//   NS/NAME/<lease>          a holder or waiter; the key that `etcdctl lock NS/NAME`
//                            creates, so that both share one queue
//   NS/.runs/NAME/now/<id>   a grant that has not been released
//   NS/.runs/NAME/past/<n>   a run that is over, by its fence
//   NS/.runs/NAME/told/<id>  why a waiter has lost its place in the queue
//   NS/.runs/NAME/taken/<id> who took the lock from a holder that could not be notified
//   NS/.runs/NAME/refused    its version is the number of refused claims,
//   NS/.runs/NAME/superseded and of superseded ones
//   NS/.runs/NAME/never      a key that never exists: see etcd_steps.hpp
//   NS/.fence/RESOURCE       the greatest fence that was admitted for it
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lock/answers.hpp"
#include "lock/history.hpp"
#include "lock/lease.hpp"
#include "rules/state.hpp"
#include "store/etcd/etcd_messages.hpp"

namespace dlock::etcd {

// The prefixes of a lock's keys.
std::string queue_prefix(const LockName& lock);  // "NS/NAME/"
std::string runs_prefix(const LockName& lock);   // "NS/.runs/NAME/"
std::string now_prefix(const LockName& lock);    // "NS/.runs/NAME/now/"
std::string past_prefix(const LockName& lock);   // "NS/.runs/NAME/past/"

std::string now_key(const LockName& lock, std::string_view id);
std::string past_key(const LockName& lock, Fence fence);
std::string told_key(const LockName& lock, std::string_view id);
std::string taken_key(const LockName& lock, std::string_view id);
std::string refused_key(const LockName& lock);
std::string superseded_key(const LockName& lock);
std::string never_key(const LockName& lock);

std::string register_key(const LockName& resource);

// The prefix of all keys of a namespace ("NS/").
std::string namespace_prefix(const std::string& name_space);

// The parts of a key of a namespace.
struct KeyParts {
  std::string name;  // of the lock
  bool in_queue = false;
  std::string rest;  // in the queue the id; otherwise what follows NS/.runs/NAME/
};

// Nothing for any other key, and for a register.
std::optional<KeyParts> parts_of(std::string_view key, const std::string& name_space);

// What names the n-th entry of a claim, where etcdctl has the id of its lease. It is
// visible in key names and does not reveal the token. Never 0.
std::int64_t number_for(const Token& token, unsigned times = 0);

// The number in the form that etcdctl uses.
std::string id_of(std::int64_t number);

// The id of the lease for the history of a day, shared by all locks of a namespace.
std::int64_t lease_of_day(const std::string& name_space, WallTime now);

// The state that an entry records. A waiting entry may already be promised the lock, if
// its turn has come; it records that as soon as it notices.
enum class Standing {
  waits,
  holds,
  broken,  // holds, but the lease was broken
  ended,   // its run is over, but the lock stays held until the lease ends
};

struct QueueEntry : CommandInfo {
  std::string id;  // its key without the lock's prefix
  std::int64_t created = 0;
  std::int64_t modified = 0;
  std::int64_t lease = 0;

  bool foreign = false;  // not written by dlock: exclusive, everything else is unknown
  Standing standing = Standing::waits;
  Mode mode = Mode::exclusive;
  unsigned slots = 1;
  unsigned slot = 0;
  Fence given_fence;              // if it is not `created`; otherwise 0
  WallTime since{};               // when it began to wait or hold
  std::int64_t ttl = 0;           // of its lease, in seconds
  std::int64_t acquired_ttl = 0;  // if a renewal has set another one
  bool attached = true;
  bool for_pid = false;
  bool supersedes = false;
  bool replaces = false;
  std::optional<Dedupe> dedupe;
  std::optional<Taker> taken_by;  // who broke it, if known

  Fence fence() const;
  bool holds() const { return standing != Standing::waits; }

  // Whether other claims can be deduplicated against its run (Claim::dedupe).
  bool counts() const { return attached && mode == Mode::exclusive && slots == 1; }
};

// The entry of `claim` as a waiter since `now`.
QueueEntry entry_for(const Claim& claim, WallTime now);

// The value of its key.
std::string text_of(const QueueEntry& entry);

// Foreign if dlock did not write the value: anyone may write there.
QueueEntry entry_from(const KeyValue& pair, std::string_view prefix);

// All entries below `prefix`, oldest first.
std::vector<QueueEntry> entries_from(const std::vector<KeyValue>& pairs,
                                     std::string_view prefix);

// For the rules: the token of the claim whose entry has this id, the entry as a holder or
// waiter, and a moment of which the clock of this host alone is known.
Token token_of(std::string_view id);
rules::Holder as_holder(const QueueEntry& entry);
rules::Waiter as_waiter(const QueueEntry& entry);
rules::Moment moment_of(WallTime now);

}  // namespace dlock::etcd
