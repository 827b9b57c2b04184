#include "supervise/spawn.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "util/light_child.hpp"

namespace dlock {
namespace {

// A number in decimal, without allocation.
class Digits {
 public:
  explicit Digits(std::int64_t number) {
    for (; number > 0; number /= 10) *--first_ = static_cast<char>('0' + number % 10);
  }
  std::string_view text() const {
    return {first_, static_cast<std::size_t>(std::end(digits_) - first_)};
  }

 private:
  char digits_[20];
  char* first_ = std::end(digits_);
};

iovec part(std::string_view text) {
  return {const_cast<char*>(text.data()), text.size()};
}

// What the child does between vfork and exec: system calls only, on memory that was
// prepared before, for it shares all of it with the suspended parent.
struct Start {
  const SpawnPlan& plan;
  const Launch& launch;
  int cgroup_to_enter = -1;  // it was not born there
  volatile Clock::rep started = 0;
  volatile int error = 0;  // stays 0 if exec succeeds
  volatile std::size_t failed_path = 0;

  void run() {
    if (cgroup_to_enter >= 0) enter_cgroup(cgroup_to_enter);
    if (plan.own_group) ::setpgid(0, 0);
    if (plan.session >= 0) ::fcntl(plan.session, F_SETFD, 0);
    const auto now = Clock::now().time_since_epoch();
    started = now.count();
    if (plan.note != nullptr) write_note(now);
    launch.restore_signals();
    const auto failed = launch.exec();
    failed_path = failed.path;
    error = failed.number;
  }

  // That it cannot be written (a full disk) keeps nobody from anything.
  void write_note(Clock::duration now) const {
    const auto& note = *plan.note;
    const Digits pid(::getpid());
    const Digits time(std::chrono::floor<milliseconds>(now).count());
    const iovec parts[] = {part(note.before_pid), part(pid.text()),
                           part(note.before_time), part(time.text()), part(note.after)};
    if (::writev(note.file.get(), parts, 5) >= 0 || errno != EFBIG) return;
    // The file is at the limit of its size, for which there is a signal. It must not
    // wait for the command to unblock it.
    sigset_t limit;
    ::sigemptyset(&limit);
    ::sigaddset(&limit, SIGXFSZ);
    const timespec at_once{};
    ::sigtimedwait(&limit, nullptr, &at_once);
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
  // Into a cgroup the C library has no way.
  const auto run = [](void* it) { static_cast<Start*>(it)->run(); };
  spawned.pid = plan.cgroup < 0 ? -1 : start_child_and_wait(run, &start, plan.cgroup);
  if (spawned.pid < 0) {
    start.cgroup_to_enter = plan.cgroup;
    spawned.pid = ::vfork();
  }
  if (spawned.pid == 0) {
    start.run();
    ::_exit(127);
  }
  // As the child saw it: it may be long until this process gets to run again.
  spawned.not_after = Clock::time_point(Clock::duration(start.started));
  if (spawned.pid < 0) return failure_of_fork(errno);
  if (start.error == 0) return spawned;
  ::waitpid(spawned.pid, nullptr, 0);
  return failure_of_exec(plan.argv.front(), paths, {start.error, start.failed_path});
}

}  // namespace dlock
