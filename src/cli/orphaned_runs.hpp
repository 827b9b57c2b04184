// What is left of runs whose dlock is gone, and from which the lock was taken.
#pragma once

#include <map>

#include "lock/answers.hpp"
#include "lock/clock.hpp"

namespace dlock {

class OrphanedRuns {
 public:
  // Does what the dlock of such a run can no longer do: TERM at first, and KILL later. To
  // be called again until the run is gone. Throws Failure (rejected) if what is left of
  // it is out of reach.
  void end(const Broken& broken);

 private:
  struct Known {
    Clock::time_point found_at;   // something of it, the last time
    Clock::time_point termed_at;  // max() as long as nothing was
  };
  std::map<Fence, Known> runs_;
};

}  // namespace dlock
