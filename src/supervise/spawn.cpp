#include "supervise/spawn.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

#include "util/text.hpp"

namespace dlock {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  // exec(3) takes them without const and does not write to them.
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// What the child does between vfork and exec: system calls only, on memory that was
// prepared before, for it shares all of it with the suspended parent.
struct Start {
  const SpawnPlan& plan;
  char* const* argv;
  char* const* environment;
  const std::vector<std::string>& paths;
  volatile int error = 0;  // stays 0 if exec succeeds
  volatile std::size_t failed_path = 0;

  void run() {
    if (plan.own_group) ::setpgid(0, 0);
    if (plan.session >= 0) ::fcntl(plan.session, F_SETFD, 0);
    if (plan.note >= 0) write_note();
    // Handlers end with exec by themselves; what was ignored has to be so again.
    ::signal(SIGBUS, plan.signals.bus_ignored ? SIG_IGN : SIG_DFL);
    ::signal(SIGSEGV, plan.signals.segv_ignored ? SIG_IGN : SIG_DFL);
    if (plan.signals.child_ignored) ::signal(SIGCHLD, SIG_IGN);
    ::sigprocmask(SIG_SETMASK, &plan.signals.mask, nullptr);
    int worst = ENOENT;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      ::execve(paths[i].c_str(), argv, environment);
      const int now = errno;
      // As execvp(3): a directory that lacks it is passed over, a file that may not
      // be executed is remembered, and anything else is final. A file whose
      // interpreter is missing counts as lacking, but is what to complain of.
      if (now == ENOENT || now == ENOTDIR) {
        const bool exists = ::access(paths[i].c_str(), F_OK) == 0;
        if (worst == ENOENT && exists) failed_path = i;
        continue;
      }
      worst = now;
      failed_path = i;
      if (now != EACCES) break;
    }
    error = worst;
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

std::string reason(int error, bool exists) {
  if (error == ENOENT && exists) return "its interpreter was not found";
  std::string text = std::strerror(error);
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(text[0]));
  return text;
}

}  // namespace

std::vector<std::string> candidates(const std::string& command, const char* path) {
  if (command.empty()) return {};
  if (command.find('/') != std::string::npos) return {command};
  std::vector<std::string> out;
  std::string_view left = path != nullptr ? path : "/usr/local/bin:/bin:/usr/bin";
  for (;;) {
    const auto colon = left.find(':');
    const auto directory = left.substr(0, colon);
    // An empty entry is the working directory.
    out.push_back(directory.empty() ? "./" + command
                                    : std::string(directory) + "/" + command);
    if (colon == std::string_view::npos) return out;
    left.remove_prefix(colon + 1);
  }
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

std::variant<Spawned, SpawnFailure> spawn(const SpawnPlan& plan) {
  const auto argv = pointers(plan.argv);
  const auto environment = pointers(plan.environment);
  const auto paths = candidates(plan.argv.front(), std::getenv("PATH"));
  Start start{plan, argv.data(), environment.data(), paths};

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
  if (spawned.pid < 0) {
    return SpawnFailure{SpawnFailure::Kind::no_resources,
                        "cannot start a process: " + reason(errno, false)};
  }
  if (start.error == 0) return spawned;
  ::waitpid(spawned.pid, nullptr, 0);
  const int error = start.error;
  const bool exists =
      !paths.empty() && ::access(paths[start.failed_path].c_str(), F_OK) == 0;
  const auto kind = kind_of_exec_error(error, exists);
  const auto why =
      kind == SpawnFailure::Kind::not_found ? "command not found" : reason(error, exists);
  return SpawnFailure{kind, printable(plan.argv.front()) + ": " + why};
}

}  // namespace dlock
