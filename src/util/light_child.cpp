#include "util/light_child.hpp"

#include <sched.h>
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

// They keep an account of each stack.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DLOCK_PLAIN_FORK
#endif

#ifdef DLOCK_PLAIN_FORK

pid_t start_light_child(void (*run)(void*), void* argument, pid_t* pid) {
  const auto child = ::fork();
  if (child == 0) {
    *pid = ::getpid();
    run(argument);
    ::_exit(127);
  }
  if (child > 0) *pid = child;
  return child;
}

#else

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

pid_t start_light_child(void (*run)(void*), void* argument, pid_t* pid) {
  child = {run, argument};
  constexpr int flags = CLONE_VM | CLONE_PARENT_SETTID | SIGCHLD;
  return ::clone(run_child, stack + stack_size, flags, &child, pid);
}

#endif

}  // namespace dlock
