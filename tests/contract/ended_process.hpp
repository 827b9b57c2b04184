// A process to record in a store.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "lock/store.hpp"

namespace dlock {

// A command that has ended and was reaped.
inline CommandProcess ended_process() {
  CommandProcess process;
  process.not_before = Clock::now();
  process.pid = ::fork();
  if (process.pid == 0) ::_exit(0);
  process.not_after = Clock::now();
  ::waitpid(process.pid, nullptr, 0);
  return process;
}

}  // namespace dlock
