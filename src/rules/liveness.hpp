// The liveness of processes, as input to the rules, and the actions that follow.
#pragma once

#include <vector>

#include "rules/state.hpp"

namespace dlock::rules {

// Reports whether a holder's or waiter's processes are alive, from the kernel where it
// can be asked.
class Liveness {
 public:
  virtual ~Liveness() = default;
  // Whether any process of it is alive: its session is locked, or its command runs.
  virtual bool is_alive(const Holder& holder) const = 0;
  virtual bool is_alive(const Waiter& waiter) const = 0;
  // Whether it certainly cannot respond now (SIGSTOP, Ctrl-Z), though it is alive.
  virtual bool is_stopped(const Waiter& waiter) const = 0;
};

// Where the clock of the store ends leases and places.
class ClockLiveness final : public Liveness {
 public:
  explicit ClockLiveness(Moment now) : now_(now.boot) {}
  bool is_alive(const Holder& holder) const override {
    return holder.lives_until && *holder.lives_until > now_;
  }
  bool is_alive(const Waiter& waiter) const override {
    return waiter.lives_until && *waiter.lives_until > now_;
  }
  bool is_stopped(const Waiter&) const override { return false; }

 private:
  Clock::time_point now_;
};

// The actions that follow from a change, to be carried out after it is stored.
struct Consequences {
  std::vector<Session>
      wake;  // waiters with a promise, and first waiters with outdated information
  std::vector<Session> dead;  // sessions whose sockets have to be removed
  // For the history: runs whose last process vanished without a report, those whose lock
  // was freed by force, and leases by hand that are over.
  std::vector<RunInfo> vanished;
  std::vector<Holder> broken;  // holders that a claim took the lock from, as they were
};

// Whether the lease of `holder` has ended, by its expiry or with its processes.
bool is_over(const Holder& holder, Moment now, const Liveness& liveness);

}  // namespace dlock::rules
