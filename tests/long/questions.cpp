// Runs a program step by step until it looks at the flags of a descriptor (fcntl), with
// which dlock begins, and lets it go on then: `questions PROGRAM [ARGUMENT]...`. Prints
// "asks" if it asks the processor about itself (cpuid) before, or else "does not ask".
// Exits as the program does, with 70 if it ends otherwise, or with 71 if it cannot be run
// so.
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace {

enum class Step { any, question, system_call };

// By the first two bytes of the instruction that comes next.
Step next_step(pid_t child, const user_regs_struct& registers) {
  const auto word = ::ptrace(PTRACE_PEEKTEXT, child, registers.rip, nullptr) & 0xffff;
  if (word == 0xa20f) return Step::question;
  return word == 0x050f ? Step::system_call : Step::any;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  const auto child = ::fork();
  if (child < 0) return 71;
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::execvp(argv[1], argv + 1);
    ::_exit(71);
  }
  int status = 0;
  bool asks = false;
  while (::waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    user_regs_struct registers{};
    if (::ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0) return 71;
    const auto step = next_step(child, registers);
    asks = asks || step == Step::question;
    const bool has_begun = step == Step::system_call && registers.rax == SYS_fcntl;
    const auto request = asks || has_begun ? PTRACE_DETACH : PTRACE_SINGLESTEP;
    if (::ptrace(request, child, nullptr, nullptr) != 0) return 71;
  }
  std::puts(asks ? "asks" : "does not ask");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 70;
}
