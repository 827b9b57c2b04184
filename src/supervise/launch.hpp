// The last steps of a child that execs the command, and the reasons why that fails.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lock/lease_watcher.hpp"
#include "supervise/signals.hpp"

namespace dlock {

// Why the command could not be started.
struct SpawnFailure {
  enum class Kind { not_found, not_executable, no_resources, too_late };
  Kind kind;
  std::string message;            // "./x: permission denied"
  Loss loss = Loss::unconfirmed;  // if it was too late
};

struct ExecError {
  int number = 0;        // errno
  std::size_t path = 0;  // index of the candidate that failed
};

// What exec needs, prepared before the fork: the child may share its memory with its
// suspended parent, or be forked by a process that must not allocate.
struct Launch {
  const std::vector<std::string>& paths;  // candidates, tried in order
  char* const* argv;
  char* const* environment;
  const SignalState& signals;
  int output = -1;  // the command's standard output; -1: dlock's

  // Restores the signal mask and dispositions that dlock was started with.
  void restore_signals() const;

  // Execs the command. Returns only if that fails.
  ExecError exec() const;
};

// Null-terminated pointers into `texts`, as exec(3) takes them; valid while `texts` is.
std::vector<char*> pointers(const std::vector<std::string>& texts);

// The paths under which `command` is tried, in order.
std::vector<std::string> candidates(const std::string& command, const char* path);

// What the errno of exec means to the user.
SpawnFailure::Kind kind_of_exec_error(int error_number, bool file_exists);

// The failure for `error` of an exec of `command`.
SpawnFailure failure_of_exec(const std::string& command,
                             const std::vector<std::string>& paths, ExecError error);

// The failure for an error of fork.
SpawnFailure failure_of_fork(int error_number);

}  // namespace dlock
