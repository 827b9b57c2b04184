// Kills all processes that descend from this one, without allocating memory.
#pragma once

#include "supervise/process_scan.hpp"
#include "supervise/signal_tree.hpp"
#include "util/clock.hpp"

namespace dlock {

// The upper bound of one sweep, so that the caller can handle other events in between.
inline constexpr milliseconds longest_sweep{20};

// Stops every descendant of this process (STOP to each, until a whole scan finds no new
// one), so that none escapes by forking, and then kills them. Returns how many we have no
// permission to kill. ProcessScan::is_empty() reports later whether all are gone: they
// take time to end, and the next sweep finds those that this one missed.
//
// A process group of another session is stopped and killed as a whole, so that no process
// in it can escape that by forking: a session of a descendant contains only descendants.
// Not so if `had_strangers`: the session of a stranger's orphan may contain the stranger.
int kill_tree(ProcessScan& scan, const TreeRoot& root, bool had_strangers);

}  // namespace dlock
