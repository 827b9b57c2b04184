#include "supervise/launch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <iterator>
#include <string_view>

#include "util/fd.hpp"
#include "util/text.hpp"

namespace dlock {
namespace {

// LISTEN_PID first: it has a second form.
constexpr std::string_view pid_variables[] = {
    "LISTEN_PID=", "WATCHDOG_PID=", "SYSTEMD_EXEC_PID="};

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
      const auto pid = text.substr(name.size());
      pid_t named = 0;
      const auto read = std::from_chars(pid.begin(), pid.end(), named);
      if (read.ec != std::errc() || read.ptr != pid.end() || named != dlock) continue;
      *variable = values[i];
      auto* end = std::copy(name.begin(), name.end(), values[i]);
      *std::to_chars(end, std::end(values[i]) - 1, ::getpid()).ptr = '\0';
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

void Launch::restore_signals() const {
  // A signal that was ignored must be ignored again.
  if (signals.child_ignored) ::signal(SIGCHLD, SIG_IGN);
  ::sigprocmask(SIG_SETMASK, &signals.mask, nullptr);
}

ExecError Launch::exec() const {
  address_to_this_process(environment, dlock);
  if (output >= 0 && ::dup3(output, STDOUT_FILENO, 0) < 0) return {errno, 0};
  ExecError worst{ENOENT, 0};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const char* path = paths[i].c_str();
    ::execve(path, argv, environment);
    const int now = errno;
    // As execvp(3): a directory without the file is skipped, a file without execute
    // permission is remembered, and any other error is final. A file with a missing
    // interpreter is skipped, too, but is the error to report.
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
  std::string_view left = path != nullptr ? path : "/usr/local/bin:/bin:/usr/bin";
  for (;;) {
    const auto colon = left.find(':');
    const auto directory = left.substr(0, colon);
    // An empty entry means the working directory.
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

}  // namespace dlock
