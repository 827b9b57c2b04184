// The lines of the log of an embedded store, `runs.jsonl`: starts and ends of runs, and
// detached grants, one line of JSON each.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/history.hpp"
#include "lock/lease.hpp"
#include "rules/state.hpp"
#include "util/clock.hpp"

namespace dlock::record {

// The beginning of a start line, as known before the process exists. The writer appends
// the command's pid, start_line_time, a time at which it runs, in milliseconds since
// boot, and start_line_end.
std::string start_line(const LockName& lock, const rules::Holder& holder);
constexpr const char* start_line_time = ",\"command_boot_ms\":";
constexpr const char* start_line_end = "}\n";
std::string end_line(const LockName& lock, const RunInfo& run);

// The line for a detached grant. It is not a run, but later boots need its fence.
std::string grant_line(const LockName& lock, const rules::Holder& holder);

// The end of a start whose command could not be started; it does not count as a run.
RunInfo never_started_run(const rules::Holder& holder);

// The contents of a log. Truncated, damaged and unknown lines are skipped, and so are
// those with an implausible fence (greatest_plausible_fence()): the next grants of all
// locks would go on from it.
struct History {
  Fence greatest_fence;
  std::map<LockName, RunInfo> last_runs;
  std::map<LockName, PastRuns> past;
  std::map<LockName, std::vector<RunInfo>>
      runs;  // the last runs_kept that started, in order
};
History history_of(std::string_view log, WallTime now = wall_now());

// The greatest fence in a log, if it is implausibly far ahead of the clock. It is not
// necessarily skipped: most of the other lines may be as far ahead.
std::optional<Fence> fence_far_ahead(std::string_view log, WallTime now);

// The command that was started under a grant, if `log` contains it.
struct LoggedCommand {
  pid_t pid = 0;
  Clock::time_point not_after;  // by when it had started
};
std::optional<LoggedCommand> command_of(std::string_view log, const LockName& lock,
                                        Fence fence);

// The end of the run under a grant, if `log` contains it.
std::optional<RunInfo> end_of(std::string_view log, const LockName& lock, Fence fence);

// Adds the labels and calendar periods that `log` has for runs of the lock: the state of
// a lock on disk does not keep them, because earlier versions would not read it then.
void add_descriptions(std::vector<RunInfo>& runs, std::string_view log,
                      const LockName& lock);

// Whether `log` contains a detached grant of the lock without its end.
bool has_lease_by_hand(std::string_view log, const LockName& lock);

// The lines of `log` to keep: the newest of each lock, at most `most` bytes in all, and
// also the line with the greatest plausible fence.
std::string shortened(std::string_view log, std::size_t most);

// With a line break at the end.
std::string line_of(const Event& event);

// Nothing if the line is not an event.
std::optional<Event> event_from(std::string_view line);

}  // namespace dlock::record
