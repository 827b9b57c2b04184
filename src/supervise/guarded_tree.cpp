#include "supervise/guarded_tree.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "supervise/kill_tree.hpp"
#include "supervise/ladder.hpp"
#include "util/fork_into.hpp"
#include "util/process.hpp"

namespace dlock {

int GuardedTree::prepare(std::atomic<bool>& has_cgroup) {
  const int error = scan_.open() ? 0 : errno != 0 ? errno : ENOENT;
  has_cgroup.store(true);  // first, so that no cgroup is left if we are killed now
  cgroup_ = OwnCgroup::create();
  has_cgroup.store(cgroup_.exists());
  return error;
}

pid_t GuardedTree::fork_command(pid_t* pid, int& to_enter) {
  to_enter = -1;
  command_ = fork_into(cgroup_.directory(), pid);
  if (command_ < 0 && cgroup_.exists()) {
    to_enter = cgroup_.directory();  // clone3 cannot create it there
    command_ = fork_into(-1, pid);
  }
  return command_;
}

void GuardedTree::drop() {
  if (command_ <= 0) return;
  ::kill(command_, SIGKILL);
  reap(command_);
}

bool GuardedTree::reap_until_command() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return false;
    }
    if (info.si_pid == command_) return true;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

void GuardedTree::signal_all(int signal, Clock::time_point until, pid_t told_group) {
  signal_tree(scan_, signal, {command_, own_group_, told_group}, until);
}

GuardedTree::Survivors GuardedTree::kill_all(Clock::time_point now) {
  cgroup_.kill_all();
  Survivors survivors;
  // The guardian was forked for the command, so all its children are the command's.
  constexpr bool had_strangers = false;
  survivors.refused = kill_tree(scan_, {command_, own_group_}, had_strangers);
  kills_since_ = std::min(kills_since_, now);
  survivors.stuck = survivors.refused == 0 && now - kills_since_ >= report_stuck_after;
  return survivors;
}

void GuardedTree::remove_cgroup(std::atomic<bool>& has_cgroup) {
  if (!cgroup_.exists() || !cgroup_.remove()) return;
  cgroup_ = OwnCgroup();
  has_cgroup.store(false);
}

}  // namespace dlock
