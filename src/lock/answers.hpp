// What a lock service answers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lock/lease.hpp"
#include "lock/lease_watcher.hpp"
#include "util/fd.hpp"

namespace dlock {

// What a claim that finds the lock busy does: whether it takes a place in the queue (or
// keeps it), or only asks. With `refuse` it only asks, and for the last time: Busy is
// what it ends with, and is counted (LockInfo::refused).
enum class Queue { stay_out, join, refuse };

// The lock is someone else's, or promised to someone: an answer, not an error.
struct Busy {
  std::vector<HolderInfo> holders;
  std::size_t place = 0;   // in the queue, from 1; 0 for a claim that does not queue
  std::size_t queued = 0;  // how many wait, this claim included
};

// A run above this one holds the lock that is asked for: waiting would never end.
struct HeldByOuterRun {
  Fence fence;
};

// The lock is in use with another number of slots.
struct SlotsDiffer {
  unsigned in_use = 0;
};

// A run of the lock counts as the one that is asked for.
struct Deduplicated {
  RunInfo by;
};

// A newer claim has taken the place of this one (Claim::supersedes).
struct Superseded {
  std::string host;  // of the newer one; empty if nobody knows any more
  pid_t pid = 0;
};

using Answer =
    std::variant<Grant, Busy, HeldByOuterRun, SlotsDiffer, Deduplicated, Superseded>;

// What a store says to a release. What tells of a loss (loss_found_by) is news to one who
// did not know that the lease was lost, and nothing else has been done then.
enum class Release { released, not_ours, left, taken_over, gone, broken, failed_over };

Release release_reporting(Loss loss);  // but for `unconfirmed`, which no store says

// Why the lease was lost, if that is what a release has found out.
std::optional<Loss> loss_found_by(Release answer);

// How a run ended, for the record.
struct RunEnd {
  std::optional<int> exit_code;
  std::optional<std::string> signal;
  std::string outcome;
  milliseconds duration{};
  std::optional<Loss> lost;   // the lease did not hold, or may not have held, to the end
  bool leaves_lease = false;  // to end by itself, if it can
  bool is_shared = false;  // those who wait to join it (Dedupe::joins) have run with it
};

// A holder from whom a lock is taken.
struct Broken {
  HolderInfo holder;  // as it was
  // What is there of a run whose dlock is gone, for the caller to end: a pidfd each.
  std::vector<Fd> processes;
};

}  // namespace dlock
