// The guardian itself: what runs in the process between dlock and the command.
#pragma once

#include <sys/types.h>

#include "supervise/guardian_page.hpp"
#include "supervise/ladder.hpp"
#include "supervise/launch.hpp"

namespace dlock {

// What it is born with.
struct GuardianTask {
  GuardianPage& page;
  pid_t owner;          // dlock, which is its parent for as long as it lives
  int channel;          // a stream socket to it; end of file: it is gone, too
  int timer;            // a timer on boot time, not armed
  pid_t callers_group;  // which the command goes back to, if it has none of its own
  SupervisionPlan plan;
  const std::vector<std::string>& paths;
  char* const* argv;
  const SignalState& signals;
  int output = -1;  // to be the command's standard output; -1: that of dlock
};

// Makes the process that becomes the command when dlock says so, and ends that and its
// processes when they have to end: because dlock says so, because its time is over,
// because dlock is gone, or because what is left of the lease is needed for that. Ends
// this process.
//
// From then on it allocates nothing, writes nothing, and waits for nothing but
// its socket, its timer and its children. To find the deeper processes it looks into
// /proc; where that fails they are found all the same when their parents are gone.
[[noreturn]] void guard(const GuardianTask& task);

}  // namespace dlock
