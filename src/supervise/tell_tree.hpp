// Tells all processes that descend from this one something, without allocating memory.
#pragma once

#include <sys/types.h>

#include "lock/clock.hpp"
#include "supervise/process_scan.hpp"

namespace dlock {

// The command's process, which has to be unreaped (0: it is not there any more), and
// whether it leads a process group of its own.
struct TreeRoot {
  pid_t command = 0;
  bool own_group = false;
};

// Sends `signal`, and CONT behind a TERM, to all that descends from this process when it
// is called: to each once, whoever its parent is by then. Also to what is started while
// it does so; but not below a process that catches the signal, for that starts what it
// needs to clean up. Looks no more through /proc from `until` on. Where /proc cannot be
// read it reaches the group and the children.
void tell_tree(ProcessScan& scan, int signal, const TreeRoot& root,
               Clock::time_point until);

}  // namespace dlock
