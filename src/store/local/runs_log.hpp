// The file `runs.jsonl`: starts and ends of runs, and detached grants, one line of JSON
// each.
//
// It outlives the boot that the state folder is named after: from it a new boot learns
// the last runs and the fences that were given out. People can grep it. Who may write to
// it may write anything: of a long file the end is read, and lines that cannot be right
// are passed over.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lock/clock.hpp"
#include "lock/lease.hpp"
#include "store/local/directory.hpp"
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

// The file. Lines are added without the gate: each is a write of its own, and those that
// come while the file is being shortened are not lost.
class RunsLog {
 public:
  explicit RunsLog(const Directory& directory) : directory_(directory) {}

  // Opens it for a start line that is written elsewhere, ended line before it or not.
  // Throws Failure.
  Fd open_for_note(std::string& before);

  // Adds whole lines. Throws Failure.
  enum class Length { usual, too_long };
  Length append(const std::string& lines);

  // Keeps the file bounded; under upkeep_gate. Nothing if another one did it already.
  // Throws Failure.
  void shorten();

  History read() const;
  std::string text() const;

 private:
  const Directory& directory_;
};

}  // namespace dlock::local
