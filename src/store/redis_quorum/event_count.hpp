// Decides which of the events that several servers report have happened to the lock.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "lock/event.hpp"
#include "util/clock.hpp"

namespace dlock::redis_quorum {

// An event that a majority reports has happened, once. An event of fewer servers is a
// vote that did not lead to a grant.
class EventCount {
 public:
  explicit EventCount(std::size_t servers) : servers_(servers) {}

  // Counts the event of that server; true if it is now to be reported.
  bool take(std::size_t server, const Event& event, Clock::time_point now);

  // Clears the counts: a server that was unavailable has missed events, so they are no
  // longer comparable.
  void begin_anew() { counts_.clear(); }

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
