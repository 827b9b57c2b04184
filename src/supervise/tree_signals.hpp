// Signals to all descendants of this process, without allocating memory.
#pragma once

#include <sys/types.h>

#include "supervise/process_scan.hpp"
#include "util/clock.hpp"

namespace dlock {

// The command's process, not yet reaped (0: it no longer exists), and whether it leads
// its own process group.
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

// The upper bound of one sweep, so that the caller can handle other events in between.
inline constexpr milliseconds longest_sweep{20};

// Stops every descendant of this process (STOP to each, until a whole scan finds no new
// one), so that none escapes by forking, and then kills them. Returns how many we have no
// permission to kill. ProcessScan::is_empty() reports later whether all have exited: they
// take time to do so, and the next sweep finds those that this one missed.
//
// A process group of another session is stopped and killed as a whole, so that no process
// in it can escape that by forking: a session of a descendant contains only descendants.
// Not so if `had_strangers`: the session of a stranger's orphan may contain the stranger.
int kill_tree(ProcessScan& scan, const TreeRoot& root, bool had_strangers);

}  // namespace dlock
