// What becomes of a run: for the user, for --report and for the exit status.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/args/options.hpp"
#include "cli/args/verb_table.hpp"
#include "cli/run/run_locks.hpp"
#include "cli/show/holder_text.hpp"
#include "cli/terminal/speaker.hpp"
#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "supervise/ladder.hpp"
#include "supervise/spawn.hpp"
#include "util/clock.hpp"
#include "util/process.hpp"
#include "util/users.hpp"

namespace dlock {

// name_of() has their names in this order.
enum class RunOutcome {
  running,  // not known yet
  ran,
  busy,
  superseded,
  deduplicated,
  lost,
  unavailable,
  timeout,
  not_started,
  interrupted,
  error
};

// The outcome as written in the report: "not-started"; empty while it is running.
std::string name_of(RunOutcome outcome);

// What became of a lock of a run with --also.
struct LockResult {
  std::optional<Grant> grant;
  std::optional<Loss> reason;  // why it was lost
};

struct RunResult {
  RunOutcome outcome = RunOutcome::error;
  std::optional<Loss> reason;
  std::optional<bool> is_protected;  // nothing if no command ran
  std::optional<int> exit_code;      // the exit code of dlock, or
  std::optional<int> signal;         // the signal that ends it
  // The command's own exit code or signal if it ended and dlock exits with another code:
  // the run was lost, or timed out.
  std::optional<int> command_exit_code;
  std::optional<int> command_signal;
  std::optional<Grant> grant;     // of the lock that the run is named after
  std::vector<LockResult> locks;  // with --also: of all, in the order of their names
  std::optional<milliseconds> waited;
  std::optional<WallTime> started;  // the command
  std::optional<milliseconds> ran;
  // From the end of the command's last process to that of the lease, if dlock stopped it
  // because the lease was not renewed.
  std::optional<milliseconds> margin;
  std::optional<HolderInfo> holder;       // who held the lock
  std::optional<std::string> last_lines;  // of the output, if it is known
  std::string message;
  // Whether it could not withdraw a request for a lock, which may still be granted.
  bool may_still_get = false;
};

// What identifies a run, whatever its result.
struct RunIdentity {
  const RunOptions& options;
  std::string store;  // its URL; empty if the store was not opened
  std::string host = host_name();
  std::string user = own_user();
};

// The exit code or signal to report: the command's own if the run was lost or timed out.
struct CommandEnd {
  std::optional<int> exit_code;
  std::optional<int> signal;
};
CommandEnd reported_end(const RunResult& result);

std::string report_line(const RunIdentity& run, const RunResult& result);

// Decides how a run ends up, from what happens to it, and says so on standard error.
class RunConclusion {
 public:
  // The arguments have to outlive it.
  RunConclusion(const RunOptions& options, const SupervisionPlan& plan, RunLocks& locks)
      : options_(options), plan_(plan), locks_(locks), speaker_(locks.first().speaker) {}

  // What is known of the run so far.
  RunResult& result() { return result_; }
  const RunResult& result() const { return result_; }

  // The same, with what is known of each lock of --also.
  RunResult whole_result() const;

  // When dlock noticed the end of the command.
  void command_ended_at(Clock::time_point moment) { ended_at_ = moment; }

  // The command does not run, because a lock is another's, because the store failed,
  // because another run counts as this one, because of a signal, ... Each is about the
  // lock that was asked for last.
  void not_obtained(const Answer& answer);
  void failed(const Failure& failure);
  void deduplicated();
  void interrupted(int signal);
  // ... because a waiter behind it took the lock in the same step in which it was
  // granted, or because it could not be started.
  void taken_at_once();
  void not_started(const SpawnFailure& failure);

  // The command runs, or may be running, without the lock, as the user requested.
  void unprotected(const std::string& message);

  // What is happening to a command that has run for `ran`, whose processes were sent TERM
  // because of this loss, or another reason: "stopping the command: ...".
  std::string why_stopped(std::optional<Loss> loss, milliseconds ran);

  // The command has ended. The policies of the locks know whether their leases held.
  void ended(const Ended& end);

  // The release found that this lock was lost.
  void found_lost(RunLock& lock, Loss loss);

  // Says that the lock was released, or was not, and `why`; or that a request for a lock
  // that is not held could not be withdrawn, unless the run failed and has thus said it.
  void released(const RunLock& lock, const std::optional<RunEnd>& end) const;
  void not_released(const RunLock& lock, const std::string& why) const;
  void not_withdrawn(const RunLock& lock, const std::string& why);

  // What to record of the run under this lock. Nothing for a command that never ran,
  // unless waiters may share its result (`is_shared`).
  std::optional<RunEnd> recorded_end(const RunLock& lock, bool is_shared) const;

 private:
  void conclude(RunOutcome outcome, ExitStatus status, const std::string& message);
  void lose(RunLock& lock, Loss loss);
  void lost(RunLock& lock, Loss loss, CommandFate command);
  void command_ended(const Ended& end);
  std::optional<FailedRenewals> failed_renewals(const RunLock& lock) const;
  bool leaves_lease(const RunLock& lock) const;

  const RunOptions& options_;
  const SupervisionPlan& plan_;
  RunLocks& locks_;
  const Speaker& speaker_;
  RunResult result_;
  Clock::time_point ended_at_;
};

// Whether the store reported that the lease no longer exists: there is nothing to
// release.
bool has_no_lease(const RunLock& lock);

}  // namespace dlock
