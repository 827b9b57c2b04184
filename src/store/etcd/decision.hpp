// Decides on a claim, as a plain function on a snapshot of the lock.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lock/answers.hpp"
#include "store/etcd/queue_rules.hpp"

namespace dlock::etcd {

// The decision: the answer, or what the claim has to write first.
struct Decision {
  enum class Kind {
    answer,  // write nothing, except to leave the queue if it is there
    held,    // it already has the lock
    enter,   // write an entry that holds the lock
    join,    // write an entry that waits
    wait,    // keep its place in the queue
  };

  Kind kind = Kind::answer;
  std::optional<Answer> answer;    // unless `enter`
  bool counts_as_refused = false;  // Queue::refuse, Claim::max_queue
  unsigned slot = 0;               // with `enter`
  std::vector<Entry> give_way;     // waiters that this claim supersedes
  std::vector<Entry> lose;         // holders from which it takes the lock
};

// Decides on the claim whose entry has, or would have, this id. `now` is by the clock of
// this host: etcd does not report its time.
Decision decide(const LockSnapshot& snapshot, const Claim& claim, std::string_view id,
                Queue queue, WallTime now);

// The outer run of a nested reader. Such a claim enters even if a writer waits, for that
// writer waits for the outer run, which waits for this one. Null if there is none, or if
// etcdctl is in the queue, which does not look at entries behind its own.
const Entry* outer_reader(const LockSnapshot& snapshot, const Claim& claim);

// A waiter other than `id` that will take the lock from its next holder (--replace); null
// if there is none. A waiter whose own turn has come does not count.
const Entry* replacer(const LockSnapshot& snapshot, std::string_view id);

}  // namespace dlock::etcd
