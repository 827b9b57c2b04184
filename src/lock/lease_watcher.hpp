// What is learnt of a lease, and the seam to whoever runs the command under it.
#pragma once

#include <string>

#include "lock/clock.hpp"

namespace dlock {

// Why a lease is certainly, or possibly, no longer ours.
// `failed_over`: a server that took over did not know the lease, and it was too late to
// set it up there.
enum class Loss { taken_over, gone, broken, unconfirmed, failed_over };
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
enum class Renewal { confirmed, broken, reclaimed, taken_over, gone, failed_over };

}  // namespace dlock
