// The lines of the file `runs.jsonl` (runs_log.hpp): starts and ends of runs, and
// detached grants, a line of JSON each.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lock/clock.hpp"
#include "lock/lease.hpp"
#include "store/local/names.hpp"

namespace dlock::local {

// A start as far as it is known before there is a process. What is to follow is the
// command's pid, start_line_time, a moment at which it runs, in milliseconds since boot,
// and start_line_end.
std::string start_line(const LockName& lock, const Holder& holder);
constexpr const char* start_line_time = ",\"command_boot_ms\":";
constexpr const char* start_line_end = "}\n";
std::string end_line(const LockName& lock, const RunInfo& run);

// What is logged of a detached grant, which is no run: its fence must be known to a later
// boot all the same.
std::string grant_line(const LockName& lock, const Holder& holder);

// What is logged as the end of a start that came to nothing: its command could not be
// started. It counts as no run.
RunInfo run_that_was_none(const Holder& holder);

// What a log says. Lines that are cut, damaged or of a later kind are passed over.
struct History {
  Fence greatest_fence;
  std::map<LockName, RunInfo> last_runs;
  std::map<LockName, PastRuns> past;
  std::map<LockName, std::vector<RunInfo>>
      runs;  // the last runs_kept that started, in order
};
History history_of(std::string_view log);

// The command that `log` says was started under a grant, if it names one.
struct LoggedCommand {
  pid_t pid = 0;
  Clock::time_point not_after;  // by when it had started
};
std::optional<LoggedCommand> command_of(std::string_view log, const LockName& lock,
                                        Fence fence);

// The lines of `log` that are worth keeping: of each lock the newest, no more than `most`
// bytes in all, and besides the one with the greatest fence.
std::string shortened(std::string_view log, std::size_t most);

}  // namespace dlock::local
