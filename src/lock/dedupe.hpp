// Decides which runs count as the requested run (--dedupe).
#pragma once

#include <optional>

#include "lock/lease.hpp"

namespace dlock {

// What the end of a run means for deduplication.
enum class Verdict { no_run, failed, succeeded };

// The verdict on an exit code; no code (ended by a signal, or unknown) means failed. A
// command that was not found or could not be started is no run, even if a shell reports
// that.
Verdict verdict_on(std::optional<int> exit_code);

// Whether a run started less than `window` ago. A start time in the future, because the
// clock was set back, counts as just as far in the past: after a small step the run is
// not repeated, and after a large one it is not suppressed for long.
bool is_recent(WallTime started, milliseconds window, WallTime now);

// The past runs of a lock that can still count for deduplication.
struct PastRuns {
  std::optional<RunInfo> last;
  std::optional<RunInfo> last_success;

  // Records a run, unless a later one is known. A run whose lease was lost does not
  // count: others may have run at the same time. Nor does one whose end nobody recorded:
  // it may have been lost, or killed half-way.
  void note(const RunInfo& run);

  // The run that counts for such a claim; null if none does. None counts for a claim that
  // joins, because it needs a run that has not ended yet.
  const RunInfo* counting_for(const Dedupe& dedupe, WallTime now) const;

  bool operator==(const PastRuns&) const = default;
};

}  // namespace dlock
