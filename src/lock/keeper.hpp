// The seam between whoever keeps a lease and whoever runs the command under it.
#pragma once

#include "lock/clock.hpp"

namespace dlock {

// Why a lease is certainly, or possibly, no longer ours.
enum class Loss { taken_over, gone, broken, unconfirmed };

// Told what is learnt of the lease. The one who calls it knows stores, the one who
// implements it knows processes; neither knows both.
class LeaseWatcher {
 public:
  virtual ~LeaseWatcher() = default;

  // The lease surely holds until `deadline`; never earlier than it was before.
  virtual void extend(Clock::time_point deadline) = 0;

  // The lease is lost for good: whatever relies on it is to end now.
  virtual void forfeit(Loss loss) = 0;
};

}  // namespace dlock
