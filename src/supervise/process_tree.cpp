#include "supervise/process_tree.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>

#include "util/failure.hpp"

namespace dlock {

ProcessTree::ProcessTree() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) orphans_error_ = errno;
  siginfo_t info{};
  // There are almost never any, and then nothing has to be listed.
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  const auto children = scan_.children();
  strangers_.insert(children.first, children.first + children.count);
  had_strangers_ = !strangers_.empty();
}

void ProcessTree::require_visibility() {
  if (orphans_error_ != 0) {
    throw failure_of_named(orphans_error_, "cannot track the command's processes: prctl");
  }
  if (scan_.open()) return;
  if (errno != 0) throw failure_of_named(errno, "cannot track the command's processes");
  throw Failure(Failure::Kind::misconfigured,
                "cannot track the command's processes: /proc is not mounted, or "
                "shows another PID namespace");
}

bool ProcessTree::reap_until(pid_t keep) {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return false;
    }
    if (info.si_pid == keep) return true;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
    strangers_.erase(info.si_pid);  // its pid may be reused by one of ours
  }
}

}  // namespace dlock
