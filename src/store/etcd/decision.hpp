// What becomes of a claim on a lock, as a plain function on the line of its entries.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lock/answers.hpp"
#include "store/etcd/line.hpp"

namespace dlock::etcd {

// What becomes of a claim: the answer, or what it has to write first.
struct Decision {
  enum class Kind {
    answer,  // nothing is written, but that it leaves if it has a place
    held,    // it has the lock already
    enter,   // it writes that it has the lock,
    join,    // or that it waits,
    wait,    // or keeps its place
  };

  Kind kind = Kind::answer;
  std::optional<Answer> answer;    // but for those who enter
  bool counts_as_refused = false;  // Queue::refuse, Claim::max_queue
  unsigned slot = 0;               // for those who enter
  std::vector<Entry> give_way;     // waiters that this one supersedes
  std::vector<Entry> lose;         // holders from whom this one takes the lock
};

// For the claim whose entry has, or would have, this id. `now` is by the clock of this
// host: etcd tells no time.
Decision decide(const Line& line, const Claim& claim, std::string_view id, Queue queue,
                WallTime now);

// The outer run below which the claim reads too: then it enters even if a writer waits,
// for that writer waits for the outer run, which waits for this one. Null if there is
// none, and where etcdctl is in line, which sees nobody behind itself.
const Entry* outer_reader(const Line& line, const Claim& claim);

// Whether somebody waits to take the lock from whoever is granted it, but for `id`; who
// was promised the lock itself does not.
const Entry* replacer(const Line& line, std::string_view id);

}  // namespace dlock::etcd
