// The command's processes: signals, ends and reaps them, with and without a guardian.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <optional>
#include <set>

#include "supervise/ladder.hpp"
#include "supervise/own_cgroup.hpp"
#include "supervise/process_scan.hpp"
#include "supervise/signal_round.hpp"
#include "supervise/signals.hpp"
#include "util/clock.hpp"

namespace dlock {

// Sends `signal` to the command, which is our child, and to its process group if it leads
// one. A signal that asks to end is followed by CONT if the command is stopped, as by
// reading the terminal in the background: otherwise it would not react.
void forward(int signal, const TreeRoot& root);

// The command and all its descendants, as their parent sees them: dlock itself, or its
// guardian. Does what the Ladder decides. Allocates nothing after create_cgroup().
//
// The command stays unreaped, so that its pid and its process group are not reused, until
// the owner of this object reaps it.
class CommandTree {
 public:
  // Whether this process may have children that are not the command's. A shell that ran
  // dlock with exec may have left it some; these are excluded as strangers. An orphan of
  // a stranger becomes our child, and cannot be distinguished from an orphan of the
  // command.
  enum class Strangers { none, possible };

  // Makes orphaned descendants our children, so that none escapes, and records the
  // strangers. Create it before the command is started.
  CommandTree(const SupervisionPlan& plan, Strangers strangers);
  CommandTree(const CommandTree&) = delete;
  CommandTree& operator=(const CommandTree&) = delete;

  // Ensures that all of its processes can be found later, even without free descriptors
  // or after a mount. Returns 0 or an errno.
  int open();

  // The same, but throws Failure (misconfigured: orphans do not become our children, or
  // /proc does not show them; exhausted).
  void require_visibility();

  // Creates a cgroup for the command, if possible. It may be absent.
  void create_cgroup() { cgroup_ = OwnCgroup::create(); }
  bool has_cgroup() const { return cgroup_ && cgroup_->exists(); }

  // As OwnCgroup::directory() and OwnCgroup::remove().
  int cgroup() const { return cgroup_ ? cgroup_->directory() : -1; }
  bool remove_cgroup() const { return !cgroup_ || cgroup_->remove(); }

  // The command's process, once it was forked: our child.
  void adopt(pid_t command) { command_ = command; }
  pid_t command() const { return command_; }

  // Takes over a command whose parent has ended, and its cgroup.
  void inherit(pid_t command, OwnCgroup cgroup);

  // The command has started: its timeout counts from `started`.
  void begin(Clock::time_point started) { ladder_ = Ladder(plan_, started); }

  Ladder& ladder() { return ladder_; }

  // Reaps orphans that have ended, and tells the ladder which processes are left.
  void look();

  // Does what is due. Returns what that was: TERM or KILL went to all of its processes,
  // or it is over.
  Ladder::Action act(Clock::time_point now);

  // When to look again if nothing happens before; max() if never.
  Clock::time_point next_check(Clock::time_point now) const {
    return std::min(ladder_.next_check(now), round_.next_look());
  }

  // Passes a signal that dlock has got on to the command, or to its stragglers if it has
  // ended. `own_place` is that of dlock: the processes of its group have got a signal
  // that `reached_group`.
  void forward(int signal, bool reached_group, JobPlace own_place);

  struct Survivors {
    int refused = 0;     // how many we are not allowed to kill
    bool stuck = false;  // others were killed report_stuck_after ago and have not exited
  };
  // Those of the last KILL.
  const Survivors& survivors() const { return survivors_; }

  // Kills every process once. Repeat it until none is left. `has_command`: whether the
  // command's process is our child.
  const Survivors& kill_all(Clock::time_point now, bool has_command = true);

  // Whether no process but the command is left; reaps those that have exited.
  bool is_empty() { return scan_.is_empty(command_); }

 private:
  bool reap_until_command();

  SupervisionPlan plan_;
  Ladder ladder_;
  int orphans_error_ = 0;  // why orphans do not become our children; 0: they do
  std::set<pid_t> strangers_;
  bool had_strangers_ =
      false;  // even if they have exited, their descendants may be alive
  ProcessScan scan_{&strangers_};
  SignalRound round_;
  std::optional<OwnCgroup> cgroup_;
  pid_t command_ = 0;
  bool command_ended_ = false;
  Clock::time_point kills_since_ = Clock::time_point::max();
  Survivors survivors_;
};

}  // namespace dlock
