// Kills all processes that descend from this one, without allocating memory.
#pragma once

#include "lock/clock.hpp"
#include "supervise/process_scan.hpp"
#include "supervise/tell_tree.hpp"

namespace dlock {

// One sweep never takes longer; who wants to hear of other things has to come back.
inline constexpr milliseconds longest_sweep{20};

// Freezes what descends from this process (STOP to each until a whole look finds none
// that is new), so that nothing gets away by starting others, and then kills it. How many
// of them may not be killed by us. Whether all are gone is told by
// ProcessScan::is_empty() later: to end takes them time, and what outran this is found by
// the next sweep.
//
// Whole process groups are stopped and killed at once where that can hit nobody else,
// which no process in them can outrun, whatever it starts.
int kill_tree(ProcessScan& scan, const TreeRoot& root);

}  // namespace dlock
