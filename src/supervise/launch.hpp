// The last steps of a child that becomes the command, and why it could not.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "supervise/signals.hpp"

namespace dlock {

// Why there is no command.
struct SpawnFailure {
  enum class Kind { not_found, not_executable, no_resources, too_late };
  Kind kind;
  std::string message;  // "./x: permission denied"
};

struct ExecError {
  int number = 0;        // errno
  std::size_t path = 0;  // which of the candidates it is about
};

// What is needed for exec, all of it prepared before the child is: it may share its
// memory with its suspended parent, or come from a process that allocates nothing.
struct Launch {
  const std::vector<std::string>& paths;  // candidates, tried in order
  char* const* argv;
  char* const* environment;
  const SignalState& signals;
  int output = -1;  // what the command has as its standard output; -1: that of dlock

  // Gives the signals back as dlock found them.
  void restore_signals() const;

  // Becomes the command. Returns only if that is not possible.
  ExecError exec() const;
};

// The texts as exec(3) takes them; valid as long as these are.
std::vector<char*> pointers(const std::vector<std::string>& texts);

// The paths under which `command` is tried, in order.
std::vector<std::string> candidates(const std::string& command, const char* path);

// What the errno of exec means to the user.
SpawnFailure::Kind kind_of_exec_error(int error_number, bool file_exists);

// The message to `error`, of an exec of `command`.
SpawnFailure failure_of_exec(const std::string& command,
                             const std::vector<std::string>& paths, ExecError error);

// That no process can be made.
SpawnFailure failure_of_fork(int error_number);

}  // namespace dlock
