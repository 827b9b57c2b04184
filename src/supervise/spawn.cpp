#include "supervise/spawn.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <new>
#include <string_view>

#include "util/fork_into.hpp"

namespace dlock {
namespace {

// Formats a number in decimal, without allocation.
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

// The child's report to its suspended parent, in shared memory.
struct Begun {
  volatile Clock::rep at = 0;
  volatile int error = 0;  // stays 0 if exec succeeds
  volatile std::size_t failed_path = 0;
};

// The same in memory shared with a child of fork(2).
class SharedBegun {
 public:
  explicit SharedBegun(bool is_wanted) {
    if (!is_wanted) return;
    void* memory = ::mmap(nullptr, sizeof(Begun), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) begun_ = new (memory) Begun;
  }
  ~SharedBegun() {
    if (begun_ != nullptr) ::munmap(begun_, sizeof(Begun));
  }
  SharedBegun(const SharedBegun&) = delete;
  SharedBegun& operator=(const SharedBegun&) = delete;

  Begun* get() const { return begun_; }  // null if not requested, or without memory

 private:
  Begun* begun_ = nullptr;
};

// The child's steps before exec: only system calls, on memory that was prepared before,
// because after vfork it shares all memory with the suspended parent.
struct Start {
  const SpawnPlan& plan;
  const Launch& launch;
  Begun& begun;
  int cgroup_to_enter = -1;  // -1: it was created inside, or there is none

  void run() const {
    if (cgroup_to_enter >= 0) enter_cgroup(cgroup_to_enter);
    if (plan.own_group) ::setpgid(0, 0);
    if (plan.session >= 0) ::fcntl(plan.session, F_SETFD, 0);
    const auto now = Clock::now().time_since_epoch();
    begun.at = now.count();
    if (plan.note != nullptr) write_note(now);
    launch.restore_signals();
    const auto failed = launch.exec();
    begun.failed_path = failed.path;
    begun.error = failed.number;
  }

  // A failure to write it (a full disk) is ignored.
  void write_note(Clock::duration now) const {
    const auto& note = *plan.note;
    const Digits pid(::getpid());
    const Digits time(std::chrono::floor<milliseconds>(now).count());
    const iovec parts[] = {part(note.before_pid), part(pid.text()),
                           part(note.before_time), part(time.text()), part(note.after)};
    if (::writev(note.file.get(), parts, 5) >= 0 || errno != EFBIG) return;
    // The write exceeded a file size limit, which raised SIGXFSZ. It must not stay
    // pending until the command unblocks it.
    sigset_t limit;
    ::sigemptyset(&limit);
    ::sigaddset(&limit, SIGXFSZ);
    const timespec at_once{};
    ::sigtimedwait(&limit, nullptr, &at_once);
  }
};

// vfork, not fork: nothing is copied, the parent sleeps until exec, and the error comes
// back through the shared memory, where a pipe would cost four system calls.
pid_t started_by_vfork(const Start& start) {
  const auto child = ::vfork();
  if (child != 0) return child;
  start.run();
  ::_exit(127);
}

pid_t started_in_cgroup(const Start& start, int cgroup) {
  pid_t noted = -1;
  const auto child = fork_into(cgroup, &noted, ForkWait::until_exec);
  if (child != 0) return child;
  start.run();
  ::_exit(127);
}

}  // namespace

std::variant<Spawned, SpawnFailure> spawn(const SpawnPlan& plan) {
  const auto argv = pointers(plan.argv);
  auto environment = pointers(plan.environment);
  const auto paths = candidates(plan.argv.front(), std::getenv("PATH"));
  const Launch launch{paths, argv.data(), environment.data(), plan.signals, plan.output};
  Begun own;
  const SharedBegun shared(plan.cgroup >= 0);
  Begun* begun = shared.get();

  Spawned spawned;
  spawned.not_before = Clock::now();
  spawned.pid =
      begun == nullptr ? -1 : started_in_cgroup({plan, launch, *begun}, plan.cgroup);
  if (spawned.pid < 0) {
    begun = &own;
    spawned.pid = started_by_vfork({plan, launch, own, plan.cgroup});
  }
  // As measured by the child: this process may run again much later.
  spawned.not_after = Clock::time_point(Clock::duration(begun->at));
  if (spawned.pid < 0) return failure_of_fork(errno);
  if (begun->error == 0) return spawned;
  ::waitpid(spawned.pid, nullptr, 0);
  return failure_of_exec(plan.argv.front(), paths, {begun->error, begun->failed_path});
}

}  // namespace dlock
