#include "lock/dedupe.hpp"

namespace dlock {

Verdict verdict_on(std::optional<int> exit_code) {
  if (!exit_code) return Verdict::failed;
  // No resources, not executable, not found: the exit codes of dlock and shells.
  if (*exit_code >= 125 && *exit_code <= 127) return Verdict::no_run;
  return *exit_code == 0 ? Verdict::succeeded : Verdict::failed;
}

bool is_recent(WallTime started, milliseconds window, WallTime now) {
  const auto age = now - started;
  return age < window && -age < window;
}

void PastRuns::note(const RunInfo& run) {
  if (!run.reason.empty()) {
    // An earlier version may have recorded it as vanished.
    if (last && last->fence == run.fence) last.reset();
    return;
  }
  if (!run.ended) return;
  const auto verdict = verdict_on(run.exit_code);
  if (verdict == Verdict::no_run) return;
  // Compared by fence, because times can go back.
  const auto take_in = [&](std::optional<RunInfo>& known) {
    if (!known || known->fence <= run.fence) known = run;
  };
  take_in(last);
  if (verdict == Verdict::succeeded) take_in(last_success);
}

const RunInfo* PastRuns::counting_for(const Dedupe& dedupe, WallTime now) const {
  if (dedupe.joins) return nullptr;
  // An earlier version recorded runs without an end as well.
  const bool needs_success = dedupe.retry_failed || !last || !last->ended;
  const auto& run = needs_success ? last_success : last;
  return run && is_recent(run->started, dedupe.window, now) ? &*run : nullptr;
}

}  // namespace dlock
