#include "supervise/command_tree.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "supervise/tree_signals.hpp"
#include "util/failure.hpp"

namespace dlock {

CommandTree::CommandTree(const SupervisionPlan& plan, Strangers strangers)
    : plan_(plan), ladder_(plan, {}) {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    // EINVAL: it lacks this function of the call, as emulators do.
    orphans_error_ = errno == EINVAL ? ENOSYS : errno;
  }
  if (strangers == Strangers::none) return;
  siginfo_t info{};
  // There are almost never any, and then nothing has to be listed.
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    if (errno == ECHILD) return;
    throw failure_of_call(errno, "cannot wait for the command", "waitid");
  }
  const auto children = scan_.children();
  strangers_.insert(children.first, children.first + children.count);
  had_strangers_ = !strangers_.empty();
}

int CommandTree::open() {
  if (orphans_error_ != 0) return orphans_error_;
  if (scan_.open()) return 0;
  return errno != 0 ? errno : ENOENT;
}

void CommandTree::require_visibility() {
  if (orphans_error_ != 0) {
    throw failure_of_call(orphans_error_, "cannot track the command's processes",
                          "prctl");
  }
  if (scan_.open()) return;
  if (errno != 0) throw failure_of_named(errno, "cannot track the command's processes");
  throw Failure(Failure::Kind::misconfigured,
                "cannot track the command's processes: /proc is not mounted, or "
                "shows another PID namespace");
}

void CommandTree::inherit(pid_t command, OwnCgroup cgroup) {
  command_ = command;
  cgroup_ = std::move(cgroup);
}

// Costs two system calls if no other child has died.
bool CommandTree::reap_until_command() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return false;
    }
    if (info.si_pid == command_) return true;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
    strangers_.erase(info.si_pid);  // its pid may be reused by one of ours
  }
}

void CommandTree::look() {
  if (!command_ended_ && reap_until_command()) {
    command_ended_ = true;
    ladder_.command_ended();
  }
  if (command_ended_ && ladder_.needs_tree()) ladder_.tree_is_empty(is_empty());
}

Ladder::Action CommandTree::act(Clock::time_point now) {
  const auto action = ladder_.next(now);
  switch (action) {
    case Ladder::Action::send_term:
      // It stops when the next step is due.
      signal_tree(scan_, SIGTERM, {command_, plan_.own_group}, next_check(now));
      break;
    case Ladder::Action::send_kill: kill_all(now); break;
    case Ladder::Action::done:
      // The cgroup may contain processes that are not descendants of the command.
      if (ladder_.has_sent_term()) cgroup_.kill_all();
      break;
    case Ladder::Action::wait: break;
  }
  return action;
}

void CommandTree::forward(int signal, bool reached_group, JobPlace own_place) {
  const auto now = Clock::now();
  ladder_.forwarded(signal, now);
  const int wanted = passed_on(signal, reached_group, own_place,
                               command_ended_ ? JobPlace{} : place_of(command_));
  if (wanted == 0) return;
  TreeRoot root{command_, plan_.own_group};
  if (!command_ended_) {
    dlock::forward(wanted, root);
    return;
  }
  // Only its stragglers are left, and they are waited for.
  if (reached_group) root.told_group = own_place.group;
  signal_tree(scan_, wanted, root, next_check(now));
}

const CommandTree::Survivors& CommandTree::kill_all(Clock::time_point now,
                                                    bool has_command) {
  cgroup_.kill_all();
  const TreeRoot root{has_command ? command_ : 0, plan_.own_group};
  survivors_.refused = kill_tree(scan_, root, had_strangers_);
  kills_since_ = std::min(kills_since_, now);
  survivors_.stuck = survivors_.refused == 0 && now - kills_since_ >= report_stuck_after;
  return survivors_;
}

}  // namespace dlock
