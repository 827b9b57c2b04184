#include "util/light_child.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>

namespace dlock {

#if defined(__x86_64__)

long raw_syscall(long number, std::intptr_t a, std::intptr_t b, std::intptr_t c,
                 std::intptr_t d, std::intptr_t e) {
  long result = number;
  register std::intptr_t fourth asm("r10") = d;
  register std::intptr_t fifth asm("r8") = e;
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
               : "rcx", "r11", "memory");
  return result;
}

#elif defined(__aarch64__)

long raw_syscall(long number, std::intptr_t a, std::intptr_t b, std::intptr_t c,
                 std::intptr_t d, std::intptr_t e) {
  register long which asm("x8") = number;
  register std::intptr_t first asm("x0") = a;
  register std::intptr_t second asm("x1") = b;
  register std::intptr_t third asm("x2") = c;
  register std::intptr_t fourth asm("x3") = d;
  register std::intptr_t fifth asm("x4") = e;
  asm volatile("svc 0"
               : "+r"(first)
               : "r"(which), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
               : "memory", "cc");
  return first;
}

#else
#define DLOCK_PLAIN_FORK

long raw_syscall(long number, std::intptr_t a, std::intptr_t b, std::intptr_t c,
                 std::intptr_t d, std::intptr_t e) {
  const long result = ::syscall(number, a, b, c, d, e);
  return result == -1 ? -errno : result;
}

#endif

void enter_cgroup(int directory) {
  const auto processes =
      raw_syscall(SYS_openat, directory, reinterpret_cast<std::intptr_t>("cgroup.procs"),
                  O_WRONLY | O_CLOEXEC);
  if (processes < 0) return;
  raw_syscall(SYS_write, processes, reinterpret_cast<std::intptr_t>("0"), 1);
  raw_syscall(SYS_close, processes);
}

// They keep an account of each stack.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DLOCK_PLAIN_FORK
#endif

#if defined(__x86_64__) && !defined(DLOCK_PLAIN_FORK)
#define DLOCK_CLONES_INTO_CGROUPS
#endif

#ifndef DLOCK_PLAIN_FORK

namespace {

struct Child {
  void (*run)(void*);
  void* argument;
};

int run_child(void* memory) {
  const auto& child = *static_cast<const Child*>(memory);
  child.run(child.argument);
  ::_exit(127);
}

// Untouched memory costs nothing.
constexpr std::size_t stack_size = std::size_t{64} * 1024;
alignas(64) std::byte stack[stack_size];
Child child;

}  // namespace

#endif

#ifdef DLOCK_CLONES_INTO_CGROUPS

namespace {

// As in <linux/sched.h>, which older systems lack or have without the last member.
struct CloneArguments {
  std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal;
  std::uint64_t stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};
constexpr std::uint64_t clone_into_cgroup = 0x2'0000'0000;
constexpr long number_of_clone3 = 435;

std::uint64_t as_number(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// clone(2) has no room for that flag, and no function of the C library does this.
pid_t clone_into(int cgroup, std::uint64_t flags, pid_t* pid) {
  CloneArguments arguments{};
  arguments.flags = flags | CLONE_VM | clone_into_cgroup;
  arguments.parent_tid = as_number(pid);
  arguments.exit_signal = SIGCHLD;
  arguments.stack = as_number(stack);
  arguments.stack_size = stack_size;
  arguments.cgroup = static_cast<std::uint64_t>(cgroup);
  long result = number_of_clone3;
  // The child has nothing of this function but its registers.
  asm volatile(
      "syscall\n\t"
      "testq %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xorl %%ebp, %%ebp\n\t"
      "movq %[child], %%rdi\n\t"
      "callq *%[run]\n\t"
      "hlt\n"
      "1:"
      : "+a"(result)
      : "D"(&arguments), "S"(sizeof arguments), [child] "r"(&child), [run] "r"(run_child)
      : "rcx", "r11", "cc", "memory");
  if (result >= 0) return static_cast<pid_t>(result);
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace

#else

namespace {

pid_t clone_into(int, std::uint64_t, pid_t*) {
  errno = ENOSYS;
  return -1;
}

}  // namespace

#endif

#ifdef DLOCK_PLAIN_FORK

pid_t start_light_child(void (*run)(void*), void* argument, pid_t* pid, int cgroup) {
  if (cgroup >= 0) return clone_into(cgroup, 0, pid);
  const auto child = ::fork();
  if (child == 0) {
    *pid = ::getpid();
    run(argument);
    ::_exit(127);
  }
  if (child > 0) *pid = child;
  return child;
}

pid_t start_child_and_wait(void (*)(void*), void*, int cgroup) {
  return clone_into(cgroup, 0, nullptr);
}

#else

pid_t start_light_child(void (*run)(void*), void* argument, pid_t* pid, int cgroup) {
  child = {run, argument};
  if (cgroup >= 0) return clone_into(cgroup, CLONE_PARENT_SETTID, pid);
  constexpr int flags = CLONE_VM | CLONE_PARENT_SETTID | SIGCHLD;
  return ::clone(run_child, stack + stack_size, flags, &child, pid);
}

pid_t start_child_and_wait(void (*run)(void*), void* argument, int cgroup) {
  child = {run, argument};
  return clone_into(cgroup, CLONE_VFORK, nullptr);
}

#endif

}  // namespace dlock
