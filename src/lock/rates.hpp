// Rate limits, which a store may support.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "loop/wakeup.hpp"

namespace dlock {

class RateLimits {
 public:
  virtual ~RateLimits() = default;

  // Admits the claim if no window of the rate's period then has more than its maximum, by
  // the store's clock, and if no waiter is delayed by it.
  //
  // A claim that is not admitted gets a turn if the turn comes within its longest wait:
  // the earliest moment at which it can be admitted if all waiters before it take their
  // turns. When it asks again from that moment on it is admitted, or gets a later turn if
  // one before it was late. A turn that is not taken within `turn_holds` lapses, and so
  // does the place in the queue; a turn that is a period late no longer delays those
  // behind it.
  //
  // A claim that asks again after it was admitted, because the answer was lost, is
  // admitted only once. The data of a limit expires once it no longer matters. A clock
  // that is set back delays nobody by more than a period.
  virtual asio::awaitable<RateAnswer> admit(const RateClaim& claim, Wakeup& wakeup) = 0;

  // Gives up the place in the queue, if there is one. The turns of those behind it do not
  // change.
  virtual asio::awaitable<void> withdraw(const RateClaim& claim, Wakeup& wakeup) = 0;

  // Reads the limit without changing it.
  virtual asio::awaitable<LimitInfo> look(const LockName& limit, Wakeup& wakeup) = 0;

  // Forgets everything about the limit, including its queue: it then admits like a new
  // one, at any rate. Waiters are newcomers when they ask again.
  virtual asio::awaitable<void> reset(const LockName& limit, Wakeup& wakeup) = 0;
};

}  // namespace dlock
