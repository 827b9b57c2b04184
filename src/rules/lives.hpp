// Who lives, as the rules are told it, and what is to be done because of that.
#pragma once

#include <vector>

#include "rules/state.hpp"

namespace dlock::rules {

// What is known of a holder's or waiter's processes: from the kernel, where it can be
// asked.
class Lives {
 public:
  virtual ~Lives() = default;
  // Whether any process of it is left: its session is locked, or its command runs.
  virtual bool lives(const Holder& holder) const = 0;
  virtual bool lives(const Waiter& waiter) const = 0;
  // Whether it surely cannot answer now (SIGSTOP, Ctrl-Z), though it lives.
  virtual bool is_stopped(const Waiter& waiter) const = 0;
};

// What follows from a change, to be done once it is stored.
struct Consequences {
  std::vector<Session> wake;  // promised waiters, and heads whose view is stale
  std::vector<Session> dead;  // whose sockets are to be removed
  // Runs whose last process went without a word, and leases by hand that are over: for
  // the history.
  std::vector<RunInfo> vanished;
  std::vector<Holder> broken;  // from whom a claim has taken the lock, as they were
};

// Whether the lease of `holder` has ended: by the clock, or with its processes.
bool is_over(const Holder& holder, Moment now, const Lives& lives);

}  // namespace dlock::rules
