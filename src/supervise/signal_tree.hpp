// Sends a signal to all descendants of this process, without allocating memory.
#pragma once

#include <sys/types.h>

#include "supervise/process_scan.hpp"
#include "util/clock.hpp"

namespace dlock {

// The command's process, not yet reaped (0: it no longer exists), and whether it leads a
// process group of its own.
struct TreeRoot {
  pid_t command = 0;
  bool own_group = false;
  pid_t told_group = 0;  // the processes of this group have got the signal already
};

// Sends `signal` to the command, which is our child, and to its process group if it leads
// one. A signal that asks to end is followed by CONT if the command is stopped, as by
// reading the terminal in the background: otherwise it would not react.
void forward(int signal, const TreeRoot& root);

// Sends `signal`, followed by CONT if it is TERM, once to each process that descends from
// this one at the time of the call, and to processes that start meanwhile; but not below
// a process that catches the signal, which may start what it needs to clean up. Stops
// scanning /proc at `until`. If /proc cannot be read, it reaches the process group and
// the children.
void signal_tree(ProcessScan& scan, int signal, const TreeRoot& root,
                 Clock::time_point until);

}  // namespace dlock
