// Rate limits, as a store may have them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lock/clock.hpp"
#include "lock/lease.hpp"
#include "lock/wakeup.hpp"

namespace dlock {

// What a limit says to one who asks. Each tells how many more it would admit now, and how
// long it takes until it could admit one who asks then.
struct Admitted {
  unsigned remaining = 0;
  milliseconds next_in{0};
};

// Not yet. With a turn the claim has a place in line, and is to ask again after
// `next_in`; without one that would be longer than its patience.
struct NotAdmitted {
  unsigned remaining = 0;
  milliseconds next_in{0};
  bool has_turn = false;
};

// The limit is in use with another rate.
struct RateDiffers {
  Rate in_use;
};

using RateAnswer = std::variant<Admitted, NotAdmitted, RateDiffers>;

// A turn that is not taken for so long has lapsed.
constexpr milliseconds turn_holds{1000};

// What there is to see of a limit.
struct LimitInfo {
  // One who waits for a turn, and how long until it comes.
  struct Waiter {
    std::string host;  // empty if it is not known
    pid_t pid = 0;
    milliseconds turn_in{0};
  };

  std::optional<Rate> rate;  // nothing: it is not in use, and admits at any rate
  unsigned remaining = 0;
  milliseconds next_in{0};      // until one who asks then could be admitted
  std::vector<Waiter> waiters;  // in order of arrival
};

class RateLimits {
 public:
  virtual ~RateLimits() = default;

  // Admits the claim if that makes no window of the rate's period hold more than it may,
  // by the store's clock, and if it would not do so at the expense of those in line.
  //
  // Who is not admitted gets a turn if that comes within its patience: the earliest
  // moment at which it can be admitted if all before it take their turns. It is admitted
  // when it asks again from that moment on, or is told a later turn where one before it
  // was late. A turn that is not taken within `turn_holds` lapses, and so does the place
  // in line; one that is a period late holds up none of those who wait behind it.
  //
  // A claim that asks again after it was admitted, its answer having been lost, is
  // admitted once. What is known of a limit goes away by itself once it is of no
  // consequence. A clock that is set back delays nobody by more than a period.
  virtual asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) = 0;

  // Gives up the place in line; nothing if there is none. The turns of those behind it
  // stay what they were told.
  virtual asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) = 0;

  // Changes nothing.
  virtual asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) = 0;

  // Forgets all that is known of the limit, its line too: it admits as one that was never
  // used, at any rate. Those who wait are newcomers when they ask again.
  virtual asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) = 0;
};

}  // namespace dlock
