// Usage: cpuid_check PROGRAM [ARGUMENT]...
//
// Runs a program instruction by instruction until it reads the flags of a descriptor
// (fcntl), which is the first thing that dlock does, and then at full speed. Prints
// "cpuid" if the program executed CPUID before that, or else "no cpuid". Exits as the
// program does, with 70 if it ends in another way, or with 71 if it cannot be traced.
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace {

enum class Step { any, cpuid, system_call };

// Checks the first two bytes of the next instruction.
Step next_step(pid_t child, const user_regs_struct& registers) {
  const auto word = ::ptrace(PTRACE_PEEKTEXT, child, registers.rip, nullptr) & 0xffff;
  if (word == 0xa20f) return Step::cpuid;
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
  bool ran_cpuid = false;
  while (::waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    user_regs_struct registers{};
    if (::ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0) return 71;
    const auto step = next_step(child, registers);
    ran_cpuid = ran_cpuid || step == Step::cpuid;
    const bool has_begun = step == Step::system_call && registers.rax == SYS_fcntl;
    const auto request = ran_cpuid || has_begun ? PTRACE_DETACH : PTRACE_SINGLESTEP;
    if (::ptrace(request, child, nullptr, nullptr) != 0) return 71;
  }
  std::puts(ran_cpuid ? "cpuid" : "no cpuid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 70;
}
