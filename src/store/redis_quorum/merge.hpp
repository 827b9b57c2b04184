// Merges the views of a lock on several servers into one. Plain functions on values.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "lock/history.hpp"
#include "lock/store.hpp"
#include "util/clock.hpp"

namespace dlock::redis_quorum {

// A single vote is not a lease, and a single server may be wrong. A holder, a waiter or a
// run is included if a majority may know it, counting the servers that did not reply;
// the last success only if a majority does know it. Of a run's end, what most of them
// recorded counts.

// From the replies of some of `servers` servers; at least one.
LockInfo merged(const std::vector<LockInfo>& told, std::size_t servers);

// The holders that a majority may know, from lists of them.
std::vector<HolderInfo> told_by_most(const std::vector<std::vector<HolderInfo>>& told,
                                     std::size_t servers);

// Newest start first.
std::vector<RunInfo> merged_runs(const std::vector<std::vector<RunInfo>>& told,
                                 std::size_t servers);

// Decides which of the events that several servers report have happened to the lock.

// An event that a majority reports has happened, once. An event of fewer servers is a
// vote that did not lead to a grant.
class EventCount {
 public:
  explicit EventCount(std::size_t servers) : servers_(servers) {}

  // Counts the event of that server; true if it is now to be reported.
  bool take(std::size_t server, const Event& event, Clock::time_point now);

  // That server tells events from now on. It may have missed some: it counts as if it had
  // told those that were passed on. What others have told so far still counts, or an
  // event could come behind later ones.
  void begin_anew(std::size_t server);

 private:
  using Key = std::tuple<LockName, Event::Kind, Fence, std::string, pid_t>;
  struct Count {
    std::vector<std::size_t> told;  // by each server
    std::size_t passed_on = 0;      // to the caller
    Clock::time_point last{};
  };
  void forget_old(Clock::time_point now);

  std::size_t servers_;
  std::map<Key, Count> counts_;
  Clock::time_point looked_at_{};
};

}  // namespace dlock::redis_quorum
