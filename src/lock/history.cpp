#include "lock/history.hpp"

#include <algorithm>

namespace dlock {

std::optional<RunInfo> run_of(const HolderInfo& holder) {
  if (holder.foreign || holder.kept || !holder.attached) return std::nullopt;
  RunInfo run;
  run.fence = holder.fence;
  run.started = holder.since;
  run.duration = holder.held;
  run.host = holder.host;
  run.outcome = "running";
  return run;
}

std::vector<RunInfo> as_history(std::vector<RunInfo> runs, WallTime now) {
  // One that vanished has no end, and its start is all that is known.
  std::erase_if(runs, [&](const RunInfo& run) {
    const bool is_over = run.outcome != "running";
    return is_over && now - run.ended.value_or(run.started) > WallTime(runs_kept_for);
  });
  // Stable, so that of two records of one run the first counts.
  std::stable_sort(runs.begin(), runs.end(), [](const RunInfo& a, const RunInfo& b) {
    return a.started != b.started ? a.started > b.started : a.fence > b.fence;
  });
  const auto is_same = [](const RunInfo& a, const RunInfo& b) {
    return a.fence == b.fence;
  };
  runs.erase(std::unique(runs.begin(), runs.end(), is_same), runs.end());
  return runs;
}

}  // namespace dlock
