// The durations that follow from a TTL, and what they mean as points in time.
#pragma once

#include <algorithm>
#include <string>

#include "util/clock.hpp"

namespace dlock {

// The longest time from TERM to KILL when the lock is certainly lost.
constexpr milliseconds longest_certain_loss_grace{1000};

// When a lease that can expire is renewed, and when the processes that rely on it have to
// end so that they are gone before the store could grant the lock to somebody else.
class LeaseTiming {
 public:
  // `kill_after`: the time from TERM to KILL that the user set. `budget`: the time limit
  // of one operation on the store.
  LeaseTiming(milliseconds ttl, milliseconds kill_after, milliseconds budget)
      : ttl_(ttl),
        grace_(std::min({kill_after, longest_grace, ttl / 5})),
        budget_(budget) {}

  milliseconds ttl() const { return ttl_; }

  // An allowance for clocks that run at different speeds.
  milliseconds drift() const { return (ttl_ + milliseconds(99)) / 100 + milliseconds(2); }
  // The time from KILL until the last process is gone. On a busy machine each process has
  // to wait for a CPU to exit on, however long the lease is.
  milliseconds margin() const { return std::clamp(ttl_ / 20, least_margin, most_margin); }
  // From TERM to KILL when the lease may expire.
  milliseconds grace() const { return grace_; }
  // From TERM to KILL when the lease is certainly lost.
  milliseconds certain_loss_grace() const {
    return std::min(grace_, longest_certain_loss_grace);
  }
  milliseconds budget() const { return budget_; }

  // From one renewal to the next. Failed renewals are repeated at growing intervals, from
  // first_retry (loop/retry.hpp) up to longest_retry().
  milliseconds renew_every() const { return ttl_ / 3; }
  milliseconds longest_retry() const { return renew_every() / 4; }

  // Whether a command could still be ended in time after a failed renewal.
  bool is_sound() const { return needed() <= ttl_; }
  milliseconds needed() const {
    return renew_every() + budget_ + grace_ + margin() + drift();
  }

  // The last moment at which a lease certainly holds that was granted or renewed by a
  // request sent at `sent_at`.
  Clock::time_point deadline(Clock::time_point sent_at) const {
    return later(sent_at, ttl_ - drift());
  }

  // How much of a lease has to be left to start a command.
  milliseconds needed_to_start() const { return grace_ + margin() + budget_; }

 private:
  static constexpr milliseconds longest_grace{5000};
  // With two CPUs and eight busy processes, up to 71 ms were measured.
  static constexpr milliseconds least_margin{125};
  static constexpr milliseconds most_margin{2000};

  milliseconds ttl_;
  milliseconds grace_;
  milliseconds budget_;
};

}  // namespace dlock
