// Which of the events that several servers tell of have happened to the lock.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "lock/clock.hpp"
#include "lock/event.hpp"

namespace dlock::redis_quorum {

// What most servers tell of has happened, once. What fewer do is a vote that came to
// nothing.
class EventCount {
 public:
  explicit EventCount(std::size_t servers) : servers_(servers) {}

  // Takes note of what that server tells. Whether it is news, and to be told on.
  bool take(std::size_t server, const Event& event, Clock::time_point now);

  // A server that was away has missed events: what it and others told so far is nothing
  // to go by.
  void begin_anew() { counts_.clear(); }

 private:
  using Key = std::tuple<LockName, Event::Kind, Fence, std::string, pid_t>;
  struct Count {
    std::vector<std::size_t> told;  // by each server
    std::size_t passed_on = 0;
    Clock::time_point last{};
  };
  void forget_old(Clock::time_point now);

  std::size_t servers_;
  std::map<Key, Count> counts_;
  Clock::time_point looked_at_{};
};

}  // namespace dlock::redis_quorum
