#include "supervise/spawn.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iterator>

namespace dlock {
namespace {

// What the child does between vfork and exec: system calls only, on memory that was
// prepared before, for it shares all of it with the suspended parent.
struct Start {
  const SpawnPlan& plan;
  const Launch& launch;
  volatile int error = 0;  // stays 0 if exec succeeds
  volatile std::size_t failed_path = 0;

  void run() {
    if (plan.own_group) ::setpgid(0, 0);
    if (plan.session >= 0) ::fcntl(plan.session, F_SETFD, 0);
    if (plan.note >= 0) write_note();
    launch.restore_signals();
    const auto failed = launch.exec();
    failed_path = failed.path;
    error = failed.number;
  }

  // That it cannot be written (a full disk) keeps nobody from anything.
  void write_note() const {
    char digits[16];
    char* first = std::end(digits);
    for (auto pid = ::getpid(); pid > 0; pid /= 10) {
      *--first = static_cast<char>('0' + pid % 10);
    }
    const iovec parts[] = {
        {const_cast<char*>(plan.note_before.data()), plan.note_before.size()},
        {first, static_cast<std::size_t>(std::end(digits) - first)},
        {const_cast<char*>(plan.note_after.data()), plan.note_after.size()}};
    if (::writev(plan.note, parts, 3) >= 0 || errno != EFBIG) return;
    // The file is at the limit of its size, for which there is a signal. It must not
    // wait for the command to unblock it.
    sigset_t limit;
    ::sigemptyset(&limit);
    ::sigaddset(&limit, SIGXFSZ);
    const timespec now{};
    ::sigtimedwait(&limit, nullptr, &now);
  }
};

}  // namespace

std::variant<Spawned, SpawnFailure> spawn(const SpawnPlan& plan) {
  const auto argv = pointers(plan.argv);
  const auto environment = pointers(plan.environment);
  const auto paths = candidates(plan.argv.front(), std::getenv("PATH"));
  const Launch launch{paths, argv.data(), environment.data(), plan.signals, plan.output};
  Start start{plan, launch};

  Spawned spawned;
  spawned.not_before = Clock::now();
  // vfork, not fork: nothing is copied, the parent sleeps until exec, and the error
  // comes back through the shared memory, where a pipe would cost four system calls.
  spawned.pid = ::vfork();
  if (spawned.pid == 0) {
    start.run();
    ::_exit(127);
  }
  spawned.not_after = Clock::now();
  if (spawned.pid < 0) return failure_of_fork(errno);
  if (start.error == 0) return spawned;
  ::waitpid(spawned.pid, nullptr, 0);
  return failure_of_exec(plan.argv.front(), paths, {start.error, start.failed_path});
}

}  // namespace dlock
