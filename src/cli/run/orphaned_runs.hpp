// Ends the remaining processes of broken runs whose dlock process is gone.
#pragma once

#include <map>

#include "lock/answers.hpp"
#include "util/clock.hpp"

namespace dlock {

class OrphanedRuns {
 public:
  // Does what the run's own dlock can no longer do: sends SIGTERM first and SIGKILL
  // later. To be called repeatedly until the run is gone. Throws Failure (rejected) if
  // its processes cannot be reached.
  void end(const Broken& broken);

 private:
  struct Known {
    Clock::time_point found_at;   // when a process of it was last found
    Clock::time_point termed_at;  // max() until SIGTERM was sent
  };
  std::map<Fence, Known> runs_;
};

}  // namespace dlock
