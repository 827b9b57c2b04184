// The interface between renewing a lease and running the command under it.
#pragma once

#include <string>

#include "lock/answers.hpp"

namespace dlock {

// Notified of changes to the lease. The caller knows stores, the implementation knows
// processes; neither knows both.
class LeaseWatcher {
 public:
  virtual ~LeaseWatcher() = default;

  // The lease certainly holds until `deadline`. max(): nothing is to end because of the
  // lease.
  virtual void extend(Clock::time_point deadline) = 0;

  // A renewal was not confirmed and will be tried again. Nothing else is known. `why`:
  // the message of the Failure.
  virtual void renewal_failed(Clock::time_point /*now*/, const std::string& /*why*/) {}

  // The lease had vanished and was restored before the lock was granted to anybody else:
  // for a moment nothing kept others out. Called right before `extend`.
  virtual void reclaimed() {}

  // The lease is lost for good: everything that relies on it has to end now.
  virtual void forfeit(Loss loss) = 0;
};

}  // namespace dlock
