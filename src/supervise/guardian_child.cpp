#include "supervise/guardian_child.hpp"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "util/fork_into.hpp"

namespace dlock {

using Step = GuardianPage::Step;

void GuardianChild::run() const {
  // PDEATHSIG depends on the parent thread; the guardian has only one.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) fail(Step::become, errno);
  if (::getppid() != guardian) ::_exit(127);  // the guardian is already gone
  if (cgroup_to_enter >= 0) enter_cgroup(cgroup_to_enter);
  auto& page = task.page;
  const auto group = task.plan.own_group ? 0 : task.callers_group;
  if (::setpgid(0, group) != 0) fail(Step::become, errno);
  page.is_in_group.store(true);
  await_word();
  page.is_becoming.store(true);
  const Launch launch{task.paths,   task.argv,   page.environment,
                      task.signals, task.output, task.owner};
  launch.restore_signals();
  if (!may_start()) fail(Step::too_late, 0);
  const auto failed = launch.exec();
  fail(Step::exec, failed.number, failed.path);
}

void GuardianChild::await_word() const {
  while (task.page.go.load() == 0) {
    ::syscall(SYS_futex, &task.page.go, FUTEX_WAIT, 0, nullptr);
  }
}

// Whether enough of the lease is left to end the command in time.
bool GuardianChild::may_start() const {
  const auto until = task.page.deadline.load();
  if (until == GuardianPage::never || !task.plan.lease) return true;
  const auto& lease = *task.plan.lease;
  return until != GuardianPage::ending && Clock::now() + lease.margin() + lease.grace() <
                                              Clock::time_point(nanoseconds(until));
}

void GuardianChild::fail(Step step, int error, std::size_t path) const {
  task.page.error = error;
  task.page.path = path;
  task.page.failed_at = step;
  ::_exit(127);
}

}  // namespace dlock
