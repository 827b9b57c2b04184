// From an argument vector to a running command.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "lock/command_process.hpp"
#include "supervise/launch.hpp"
#include "supervise/signals.hpp"

namespace dlock {

struct SpawnPlan {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // NAME=value
  SignalState signals;
  bool own_group = false;  // lead a process group instead of staying in the caller's
  int session = -1;        // a close-on-exec descriptor that the command inherits anyway
  int output = -1;         // its standard output; -1: that of this process
  const StartNote* note = nullptr;  // the child writes it
  // The directory of the control group to start it in, if possible; -1: the caller's.
  int cgroup = -1;
};

// A command that was started and is not yet reaped.
using Spawned = CommandProcess;

// Starts argv[0], searched in PATH as execvp(3) does but never through a shell. If exec
// fails, returns its exact error; no process is left then.
std::variant<Spawned, SpawnFailure> spawn(const SpawnPlan& plan);

}  // namespace dlock
