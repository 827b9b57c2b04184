// Which runs of a lock count as one that is about to start (--dedupe).
#pragma once

#include <optional>

#include "lock/lease.hpp"

namespace dlock {

// What the end of a run says to those who want to run the same.
enum class Verdict { no_run, failed, succeeded };

// Nothing for a run that a signal ended, or of whose end nobody knows. A command that
// was not found, or could not be started, has done nothing that could count: not even if
// it was a shell that says so.
Verdict verdict_on(std::optional<int> exit_code);

// Whether a run that started then did so less than `window` ago. One that started later
// than now, because the clock was set back, counts as far ahead as it would back: a small
// step does not start it twice, and a large one does not keep it from starting for long.
bool is_recent(WallTime started, milliseconds window, WallTime now);

// Of all past runs of a lock those that can still count for somebody.
struct PastRuns {
  std::optional<RunInfo> last;
  std::optional<RunInfo> last_success;

  // Takes in a run that has ended, unless a later one is known. One whose lease was lost
  // counts for nobody: others may have run beside it.
  void note(const RunInfo& run);

  // The one that counts for such a claim; null if none does. None does for one that joins
  // what has not ended yet.
  const RunInfo* counting_for(const Dedupe& dedupe, WallTime now) const;
};

}  // namespace dlock
