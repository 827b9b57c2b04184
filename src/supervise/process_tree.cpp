#include "supervise/process_tree.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <unordered_set>

#include "util/fd.hpp"

namespace dlock {
namespace {

// 0, or the errno.
int send_to(const ProcessInfo& target, int signal) {
  const Fd process(open_pidfd(target.pid));
  if (!process) {
    if (errno == ESRCH) return ESRCH;
    return ::kill(target.pid, signal) == 0 ? 0 : errno;  // no pidfds here
  }
  // The number may have passed to another between the listing and the opening.
  const auto now = process_of(target.pid);
  if (!now || now->started != target.started) return ESRCH;
  return ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0 ? 0
                                                                                  : errno;
}

std::vector<pid_t> children() {
  if (auto listed = own_children()) return *listed;
  std::vector<pid_t> found;
  for (const auto& process : all_processes()) {
    if (process.parent == ::getpid()) found.push_back(process.pid);
  }
  return found;
}

}  // namespace

std::vector<ProcessInfo> descendants(pid_t root, const std::vector<ProcessInfo>& all,
                                     const std::set<pid_t>& strangers) {
  std::unordered_set<pid_t> parents{root};
  std::vector<ProcessInfo> found;
  // Numbers wrap around, so a child can stand before its parent: until nothing new.
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& process : all) {
      if (parents.count(process.parent) == 0 || parents.count(process.pid) > 0 ||
          strangers.count(process.pid) > 0) {
        continue;
      }
      parents.insert(process.pid);
      if (!process.is_dead) found.push_back(process);
      grew = true;
    }
  }
  return found;
}

ProcessTree::ProcessTree() {
  catches_orphans_ = ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
  siginfo_t info{};
  // Nearly always there are none, and nothing has to be listed.
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  for (const pid_t child : children()) strangers_.insert(child);
}

Sweep ProcessTree::send(int signal) const {
  Sweep sweep;
  const auto count = [&](int error) {
    if (error == 0) ++sweep.signalled;
    if (error == EPERM) ++sweep.refused;
  };
  for (const auto& process : descendants(::getpid(), all_processes(), strangers_)) {
    count(send_to(process, signal));
  }
  // Children that /proc hides from us (hidepid) run as somebody else.
  for (const pid_t child : own_children().value_or(std::vector<pid_t>{})) {
    if (strangers_.count(child) == 0 && !process_of(child)) {
      count(::kill(child, signal) == 0 ? 0 : errno);
    }
  }
  return sweep;
}

void ProcessTree::tell(int signal, const TreeRoot& root, Clock::time_point until) const {
  ProcessScan scan(&strangers_);
  scan.open();
  tell_tree(scan, signal, root, until);
}

bool ProcessTree::is_empty(pid_t keep) {
  bool any = false;
  for (const pid_t child : children()) {
    if (child == keep) continue;
    if (::waitpid(child, nullptr, WNOHANG) == child) {
      strangers_.erase(child);  // its number may pass to one of ours
    } else if (strangers_.count(child) == 0) {
      any = true;
    }
  }
  return !any;
}

bool ProcessTree::reap_until(pid_t keep) {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return false;
    }
    if (info.si_pid == keep) return true;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
    strangers_.erase(info.si_pid);
  }
}

}  // namespace dlock
