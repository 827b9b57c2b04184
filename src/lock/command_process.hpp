// Identifies the process that runs under a lease.
#pragma once

#include <sys/types.h>

#include <string>

#include "util/clock.hpp"
#include "util/fd.hpp"

namespace dlock {

// A process that relies on a lease, for stores that can ask the kernel about it. It
// started between the two moments, which tells it from a later process with the same pid.
struct CommandProcess {
  pid_t pid = 0;
  Clock::time_point not_before;
  Clock::time_point not_after;
};

// What the process writes right before it executes the command: its own pid between the
// first two texts, and the milliseconds since boot between the last two. So the store
// knows the process before its first instruction.
struct StartNote {
  Fd file;
  std::string before_pid;
  std::string before_time;
  std::string after;
};

}  // namespace dlock
