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
  int session = -1;        // a close-on-exec descriptor to pass on all the same
  int output = -1;         // to be its standard output; -1: that of this process
  const StartNote* note = nullptr;  // to be written by the child
  // A directory, in whose control group it is to be if that can be done; -1: in the
  // caller's.
  int cgroup = -1;
};

// A command that was started; not yet reaped.
using Spawned = CommandProcess;

// Starts argv[0], searched in PATH as execvp(3) does but never through a shell. The
// error of exec comes back exactly; nothing is left behind then.
std::variant<Spawned, SpawnFailure> spawn(const SpawnPlan& plan);

}  // namespace dlock
