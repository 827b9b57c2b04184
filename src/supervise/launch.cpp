#include "supervise/launch.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "util/light_child.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

std::string reason(int error, bool exists) {
  if (error == ENOENT && exists) return "its interpreter was not found";
  std::string text = std::strerror(error);
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(text[0]));
  return text;
}

}  // namespace

void Launch::restore_signals() const {
  // What was ignored has to be so again.
  if (signals.child_ignored) ::signal(SIGCHLD, SIG_IGN);
  ::sigprocmask(SIG_SETMASK, &signals.mask, nullptr);
}

// Without errno, which it may share with a parent that goes on.
ExecError Launch::exec() const {
  if (output >= 0) {
    const auto error = raw_syscall(SYS_dup3, output, STDOUT_FILENO, 0);
    if (error < 0) return {-static_cast<int>(error), 0};
  }
  ExecError worst{ENOENT, 0};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto path = reinterpret_cast<std::intptr_t>(paths[i].c_str());
    const int now = -static_cast<int>(
        raw_syscall(SYS_execve, path, reinterpret_cast<std::intptr_t>(argv),
                    reinterpret_cast<std::intptr_t>(environment)));
    // As execvp(3): a directory that lacks it is passed over, a file that may not
    // be executed is remembered, and anything else is final. A file whose
    // interpreter is missing counts as lacking, but is what to complain of.
    if (now == ENOENT || now == ENOTDIR) {
      const bool exists = raw_syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
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
  // exec(3) takes them without const and does not write to them.
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

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

SpawnFailure failure_of_exec(const std::string& command,
                             const std::vector<std::string>& paths, ExecError error) {
  const bool exists =
      error.path < paths.size() && ::access(paths[error.path].c_str(), F_OK) == 0;
  const auto kind = kind_of_exec_error(error.number, exists);
  const auto why = kind == SpawnFailure::Kind::not_found ? "command not found"
                                                         : reason(error.number, exists);
  return SpawnFailure{kind, printable(command) + ": " + why};
}

SpawnFailure failure_of_fork(int error_number) {
  return SpawnFailure{SpawnFailure::Kind::no_resources,
                      "cannot start a process: " + reason(error_number, false)};
}

}  // namespace dlock
