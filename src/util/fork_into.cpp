#include "util/fork_into.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace dlock {
namespace {

// As in <linux/sched.h>, which older systems lack or have without the last member.
struct CloneArguments {
  std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal;
  std::uint64_t stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};
constexpr std::uint64_t clone_into_cgroup = 0x2'0000'0000;
constexpr long number_of_clone3 = 435;

// The sanitizers have to know of each fork.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

pid_t clone_here(int cgroup, pid_t* pid, ForkWait wait) {
  if (is_sanitized) {
    errno = ENOSYS;
    return -1;
  }
  CloneArguments arguments{};
  arguments.flags = CLONE_PARENT_SETTID;
  arguments.parent_tid = reinterpret_cast<std::uintptr_t>(pid);
  arguments.exit_signal = SIGCHLD;
  if (wait == ForkWait::until_exec) arguments.flags |= CLONE_VFORK;
  if (cgroup >= 0) {
    arguments.flags |= clone_into_cgroup;
    arguments.cgroup = static_cast<std::uint64_t>(cgroup);
  }
  // Without a stack argument and with its own memory, the child continues here, as after
  // fork.
  return static_cast<pid_t>(::syscall(number_of_clone3, &arguments, sizeof arguments));
}

}  // namespace

pid_t fork_into(int cgroup, pid_t* pid, ForkWait wait) {
  auto child = clone_here(cgroup, pid, wait);
  if (child >= 0 || cgroup >= 0 || wait == ForkWait::until_exec) return child;
  child = ::fork();
  if (child >= 0) *pid = child == 0 ? ::getpid() : child;
  return child;
}

void enter_cgroup(int directory) {
  const int processes = ::openat(directory, "cgroup.procs", O_WRONLY | O_CLOEXEC);
  if (processes < 0) return;
  [[maybe_unused]] const auto written = ::write(processes, "0", 1);
  ::close(processes);
}

}  // namespace dlock
