// Renewing a lease, and the seam to whoever runs the command under it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "lock/clock.hpp"
#include "lock/timing.hpp"
#include "lock/wakeup.hpp"

namespace dlock {

// Why a lease is certainly, or possibly, no longer ours.
enum class Loss { taken_over, gone, broken, unconfirmed };
std::string loss_name(Loss loss);  // as in the report: "taken over"

// Told what is learnt of the lease. The one who calls it knows stores, the one who
// implements it knows processes; neither knows both.
class LeaseWatcher {
 public:
  virtual ~LeaseWatcher() = default;

  // The lease surely holds until `deadline`; max(): whatever becomes of it, nothing is to
  // end because of that.
  virtual void extend(Clock::time_point deadline) = 0;

  // A renewal was not confirmed; it is tried again. Nothing else is known.
  virtual void renewal_failed(Clock::time_point /*now*/) {}

  // The lease had vanished, and was set up again before anybody was granted the lock:
  // for a moment nothing had kept others out. Told right before `extend`.
  virtual void reclaimed() {}

  // The lease is lost for good: whatever relies on it is to end now.
  virtual void forfeit(Loss loss) = 0;
};

// What a store says to a renewal. A lease that was broken is renewed, but its holder is
// to end. That the store cannot be asked is a Failure.
enum class Renewal { confirmed, broken, reclaimed, taken_over, gone };

// When the next renewal is due: `sent_at` was when the last one was sent that was
// confirmed, `failures` counts those that failed since, the last one at `now`. Renewals
// come earlier by a random part of up to a tenth, so that runs that started together
// do not stay together.
Clock::time_point next_renewal(const LeaseTiming& timing, Clock::time_point sent_at,
                               int failures, Clock::time_point now);

// What a keeper is told to do, besides by the clock. Each is followed by a notification.
struct KeeperOrders {
  bool stop = false;
  bool renew_now = false;  // there may be news; the keeper takes it back
};

// Renews a lease until it is told to stop (through `wakeup`) or the lease is certainly
// lost. One that was broken is renewed on, for it keeps others out until the holder has
// ended. `granted_at` is when the request was sent that was granted. It moves
// the watcher's deadline and never acts on it: if renewals fail, the deadline just stays.
// Once it is told to stop it does not touch the watcher any more.
asio::awaitable<void> keep_lease(std::function<asio::awaitable<Renewal>()> renew,
                                 LeaseTiming timing, Clock::time_point granted_at,
                                 LeaseWatcher& watcher, Wakeup& wakeup,
                                 KeeperOrders& orders);

}  // namespace dlock
