// Rate limits, as a store may have them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <variant>

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
};

}  // namespace dlock
