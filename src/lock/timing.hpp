// The durations that follow from a TTL, and what they mean as points in time.
#pragma once

#include <algorithm>
#include <string>

#include "lock/clock.hpp"

namespace dlock {

// From TERM to KILL, at most, when a lock is certainly not ours any more.
constexpr milliseconds longest_certain_loss_grace{1000};

// When a lease that can run out is renewed, and when what relies on it has to end so that
// it is gone before the store could grant the lock to somebody else.
class LeaseTiming {
 public:
  // `kill_after`: from TERM to KILL as the user wants it. `budget`: of one operation on
  // the store.
  LeaseTiming(milliseconds ttl, milliseconds kill_after, milliseconds budget)
      : ttl_(ttl),
        grace_(std::min({kill_after, longest_grace, ttl / 5})),
        budget_(budget) {}

  milliseconds ttl() const { return ttl_; }

  // For clocks that do not run alike.
  milliseconds drift() const { return (ttl_ + milliseconds(99)) / 100 + milliseconds(2); }
  // From KILL until the last process is gone. On a busy machine each of them has to wait
  // for a processor to end on, however long the lease is.
  milliseconds margin() const { return std::clamp(ttl_ / 20, least_margin, most_margin); }
  // From TERM to KILL when the lease is in trouble.
  milliseconds grace() const { return grace_; }
  // From TERM to KILL when the lease is certainly somebody else's already.
  milliseconds certain_loss_grace() const {
    return std::min(grace_, longest_certain_loss_grace);
  }
  milliseconds budget() const { return budget_; }

  // From one renewal to the next; those that failed are repeated at growing distances,
  // from first_retry up to longest_retry().
  milliseconds renew_every() const { return ttl_ / 3; }
  static constexpr milliseconds first_retry{100};
  milliseconds longest_retry() const { return renew_every() / 4; }

  // Whether a command could still be ended in time after a renewal that failed.
  bool is_sound() const { return needed() <= ttl_; }
  milliseconds needed() const {
    return renew_every() + budget_ + grace_ + margin() + drift();
  }

  // The last moment at which a lease surely holds that was granted or renewed by a
  // request sent at `sent_at`.
  Clock::time_point deadline(Clock::time_point sent_at) const {
    return later(sent_at, ttl_ - drift());
  }

  // What has to be left of a lease for a command to start on it.
  milliseconds needed_to_start() const { return grace_ + margin() + budget_; }

 private:
  static constexpr milliseconds longest_grace{5000};
  // Of two processors and eight processes that keep them busy up to 71 ms were seen.
  static constexpr milliseconds least_margin{125};
  static constexpr milliseconds most_margin{2000};

  milliseconds ttl_;
  milliseconds grace_;
  milliseconds budget_;
};

}  // namespace dlock
