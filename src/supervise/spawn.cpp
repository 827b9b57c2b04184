#include "supervise/spawn.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <string_view>

#include "util/fd.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// LISTEN_PID first: it has a second form.
constexpr std::string_view pid_variables[] = {
    "LISTEN_PID=", "WATCHDOG_PID=", "SYSTEMD_EXEC_PID="};

// Stands for a path in an ExecError: it is the output that could not be opened.
constexpr std::size_t no_output = -1;

// Why the kernel cannot execute a file: a script must begin with #!.
std::string unknown_format(const std::string& path) {
  constexpr std::string_view elf = "\177ELF";
  char begin[4] = {};
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const auto size = file ? ::read(file.get(), begin, sizeof begin) : -1;
  if (size < 0) return "exec format error";
  if (std::string_view(begin, static_cast<std::size_t>(size)) == elf)
    return "exec format error: a program for another architecture";
  return "exec format error: a script without a #! line";
}

std::string reason(int error, bool exists, const std::string& path = "") {
  if (error == ENOENT && exists) return "interpreter not found";
  if (error == ENOEXEC && exists) return unknown_format(path);
  std::string text = std::strerror(error);
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(text[0]));
  return text;
}

iovec part(std::string_view text) {
  return {const_cast<char*>(text.data()), text.size()};
}

// The child's report to its suspended parent, in shared memory.
struct Begun {
  volatile Clock::rep at = 0;
  volatile int error = 0;  // stays 0 if exec succeeds
  volatile std::size_t failed_path = 0;
};

// The same in memory shared with a child of fork(2); null without memory.
Begun* shared_begun() {
  void* memory = ::mmap(nullptr, sizeof(Begun), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Begun;
}

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
    for (const int session : plan.sessions) ::fcntl(session, F_SETFD, 0);
    const auto now = Clock::now().time_since_epoch();
    begun.at = now.count();
    for (const auto& note : plan.notes) write_note(note, now);
    launch.restore_signals();
    const auto failed = launch.exec();
    begun.failed_path = failed.path;
    begun.error = failed.number;
  }

  // A failure to write it (a full disk) is ignored.
  void write_note(const StartNote& note, Clock::duration now) const {
    char pid[20];
    char time[20];
    const iovec parts[] = {
        part(note.before_pid), part(decimal(::getpid(), pid)), part(note.before_time),
        part(decimal(std::chrono::floor<milliseconds>(now).count(), time)),
        part(note.after)};
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
pid_t start_by_vfork(const Start& start) {
  const auto child = ::vfork();
  if (child != 0) return child;
  start.run();
  ::_exit(127);
}

pid_t start_in_cgroup(const Start& start, int cgroup) {
  pid_t noted = -1;
  const auto child = fork_into(cgroup, &noted, ForkWait::until_exec);
  if (child != 0) return child;
  start.run();
  ::_exit(127);
}

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

void address_to_this_process(char** environment, pid_t dlock) {
  static char values[std::size(pid_variables)][40];
  bool owns_descriptors = false;
  for (char** variable = environment; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    for (std::size_t i = 0; i < std::size(pid_variables); ++i) {
      const auto name = pid_variables[i];
      if (!text.starts_with(name)) continue;
      if (dlock == 0) dlock = ::getppid();
      if (number_in<pid_t>(text.substr(name.size())) != dlock) continue;
      *variable = values[i];
      auto* end = std::copy(name.begin(), name.end(), values[i]);
      end[decimal(::getpid(), {end, std::end(values[i]) - 1}).size()] = '\0';
      if (i == 0) owns_descriptors = true;
    }
  }
  if (!owns_descriptors) return;
  auto** end = environment;
  while (*end != nullptr) ++end;
  *std::remove_if(environment, end, [](const char* variable) {
    return std::string_view(variable).starts_with("LISTEN_PIDFDID=");
  }) = nullptr;
}

void CommandStreams::close_ends() const {
  if (output >= 0) ::close(output);
  if (error >= 0 && error != output) ::close(error);
}

void CommandStreams::close_readers() const {
  for (const int reader : readers) {
    if (reader >= 0) ::close(reader);
  }
}

void Launch::restore_signals() const {
  // A signal that was ignored must be ignored again.
  if (signals.child_ignored) ::signal(SIGCHLD, SIG_IGN);
  ::sigprocmask(SIG_SETMASK, &signals.mask, nullptr);
}

ExecError Launch::exec() const {
  address_to_this_process(environment, dlock);
  const auto& [output, error, readers, reopened] = streams;
  if (reopened != nullptr) {
    const int file = ::open(reopened, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0 || ::dup3(file, output, O_CLOEXEC) < 0) return {errno, no_output};
  }
  if (output >= 0 && ::dup3(output, STDOUT_FILENO, 0) < 0) return {errno, no_output};
  if (error >= 0 && ::dup3(error, STDERR_FILENO, 0) < 0) return {errno, no_output};
  ExecError worst{ENOENT, 0};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const char* path = paths[i].c_str();
    ::execve(path, argv, environment);
    const int now = errno;
    // As execvp(3): a directory without the file is skipped, a file without execute
    // permission is remembered, and any other error is final. A file with a missing
    // interpreter is also skipped, but is the error to report.
    if (now == ENOENT || now == ENOTDIR) {
      const bool exists = ::access(path, F_OK) == 0;
      if (worst.number == ENOENT && exists) worst.path = i;
      continue;
    }
    worst = {now, i};
    if (now != EACCES) break;
  }
  return worst;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  // exec(3) takes non-const pointers, but does not write to them.
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> candidates(const std::string& command, const char* path) {
  if (command.empty()) return {};
  if (command.find('/') != std::string::npos) return {command};
  std::vector<std::string> out;
  for (const auto directory :
       split(path != nullptr ? path : "/usr/local/bin:/bin:/usr/bin", ':')) {
    // An empty entry means the working directory.
    out.push_back(joined(directory.empty() ? "." : directory, "/", command));
  }
  return out;
}

SpawnFailure::Kind kind_of_exec_error(int error_number, bool file_exists) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return file_exists ? SpawnFailure::Kind::not_executable
                         : SpawnFailure::Kind::not_found;
    case ENOMEM:
    case EAGAIN:
    case EMFILE:
    case ENFILE: return SpawnFailure::Kind::no_resources;
    default: return SpawnFailure::Kind::not_executable;
  }
}

SpawnFailure failure_of_exec(const std::string& command,
                             const std::vector<std::string>& paths, ExecError error) {
  if (error.path == no_output) {
    return {SpawnFailure::Kind::no_resources,
            "cannot open the file of the output again: " + reason(error.number, false)};
  }
  const auto path = error.path < paths.size() ? paths[error.path] : std::string();
  const bool exists = !path.empty() && ::access(path.c_str(), F_OK) == 0;
  const auto kind = kind_of_exec_error(error.number, exists);
  const auto why = kind == SpawnFailure::Kind::not_found
                       ? "command not found"
                       : reason(error.number, exists, path);
  return SpawnFailure{kind, printable(command) + ": " + why};
}

SpawnFailure failure_of_fork(int error_number) {
  return SpawnFailure{SpawnFailure::Kind::no_resources,
                      "cannot start a process: " + reason(error_number, false)};
}

std::variant<Spawned, SpawnFailure> spawn(const SpawnPlan& plan) {
  const auto argv = pointers(plan.argv);
  auto environment = pointers(plan.environment);
  const auto paths = candidates(plan.argv.front(), std::getenv("PATH"));
  const Launch launch{paths, argv.data(), environment.data(), plan.signals, plan.streams};
  Begun own;
  Begun* const shared = plan.cgroup >= 0 ? shared_begun() : nullptr;
  const OnExit unmap([&] {
    if (shared != nullptr) ::munmap(shared, sizeof(Begun));
  });
  Begun* begun = shared;

  Spawned spawned;
  spawned.not_before = Clock::now();
  spawned.pid =
      begun == nullptr ? -1 : start_in_cgroup({plan, launch, *begun}, plan.cgroup);
  if (spawned.pid < 0) {
    begun = &own;
    spawned.pid = start_by_vfork({plan, launch, own, plan.cgroup});
  }
  // As measured by the child: this process may run again much later.
  spawned.not_after = Clock::time_point(Clock::duration(begun->at));
  if (spawned.pid < 0) return failure_of_fork(errno);
  if (begun->error == 0) return spawned;
  ::waitpid(spawned.pid, nullptr, 0);
  return failure_of_exec(plan.argv.front(), paths, {begun->error, begun->failed_path});
}

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
