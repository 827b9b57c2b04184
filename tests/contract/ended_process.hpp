// A process to tell a store of.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "lock/store.hpp"

namespace dlock {

// A command that has been there and is not any more.
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
