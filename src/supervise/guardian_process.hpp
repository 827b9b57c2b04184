// The guardian process, which runs between dlock and the command.
#pragma once

#include <sys/types.h>

#include "supervise/guardian_page.hpp"
#include "supervise/ladder.hpp"
#include "supervise/launch.hpp"

namespace dlock {

// Its parameters, set before the fork.
struct GuardianTask {
  GuardianPage& page;
  pid_t owner;          // dlock, its parent while dlock lives
  int channel;          // a stream socket to dlock; end of file: dlock is gone
  int timer;            // a timer on boot time, not armed
  pid_t callers_group;  // the command returns to it, unless it gets a group of its own
  SupervisionPlan plan;
  const std::vector<std::string>& paths;
  char* const* argv;
  const SignalState& signals;
  int output = -1;  // the command's standard output; -1: dlock's
};

// Forks the process that becomes the command when dlock says so. Ends the command and its
// processes when dlock says so, when the timeout passes, when dlock is gone, or when the
// rest of the lease is needed to end them in time. Exits this process.
//
// It allocates nothing, writes no output, and waits only for its socket, its timer and
// its children. It finds deeper descendants through /proc; where that fails, it finds
// them once their parents are gone.
[[noreturn]] void guard(const GuardianTask& task);

}  // namespace dlock
