// From an argument vector to a running command: the last steps of a child that execs it,
// and the reasons why that fails.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
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

// Where the command's output goes; -1: where dlock's goes.
struct CommandStreams {
  int output = -1;
  int error = -1;
  // The other ends of these if they are pipes, which only dlock may keep open.
  int readers[2] = {-1, -1};
  // If this is set, the command opens this path for its output instead, if that is
  // possible: dlock may have another file there by now. Has to outlive the command's
  // start.
  const char* reopened = nullptr;

  // Closes what only the command, or only dlock, may have open.
  void close_ends() const;
  void close_readers() const;
};

// What exec needs, prepared before the fork: the child may share its memory with its
// suspended parent, or be forked by a process that must not allocate.
struct Launch {
  const std::vector<std::string>& paths;  // candidates, tried in order
  char* const* argv;
  char** environment;
  const SignalState& signals;
  const CommandStreams& streams;
  pid_t dlock = 0;  // 0: this process's parent

  // Restores the signal mask and dispositions that dlock was started with.
  void restore_signals() const;

  // Execs the command, after address_to_this_process(). Returns only if that fails.
  ExecError exec() const;
};

// In a null-terminated environment, replaces the variables by which service managers
// address the process that they started (LISTEN_PID, WATCHDOG_PID, SYSTEMD_EXEC_PID) if
// they name `dlock` (0: this process's parent): they name this process instead.
// LISTEN_PIDFDID, which identifies the same process in a second way, is removed then.
// Allocates nothing; the new values are in static memory. Without these variables it
// makes no system call.
void address_to_this_process(char** environment, pid_t dlock);

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

// The parameters of a command that are known only once the lock is granted.
struct StartPlan {
  std::vector<std::string> environment;  // NAME=value
  // Until when the lease holds for certain.
  Clock::time_point deadline = Clock::time_point::max();
  // Close-on-exec descriptors that the command inherits anyway.
  std::vector<int> sessions;
  CommandStreams streams;            // those that the guardian was given, if there is one
  std::span<const StartNote> notes;  // the command's process writes them
};

struct SpawnPlan : StartPlan {
  std::vector<std::string> argv;
  SignalState signals;
  bool own_group = false;  // lead a process group instead of staying in the caller's
  // The directory of the control group to start it in, if possible; -1: the caller's.
  int cgroup = -1;
};

// A command that was started and is not yet reaped.
using Spawned = CommandProcess;

// Starts argv[0], searched in PATH as execvp(3) does but never through a shell. If exec
// fails, returns its exact error; no process is left then.
std::variant<Spawned, SpawnFailure> spawn(const SpawnPlan& plan);

enum class ForkWait { none, until_exec };

// Forks. Returns 0 in the child, its pid in the parent, or -1 with errno. The child has
// to end with exec or _exit, and may call only async-signal-safe functions.
//
// The pid is stored in `*pid` before the child runs. If that is shared memory, other
// processes know of the child even if this process is killed at once. With
// ForkWait::until_exec the parent sleeps until the child has called exec or ended.
//
// `cgroup`: the directory of a control group in which the child is created, or -1 for
// that of this process. The child cannot escape by forking quickly. It costs a tenth of a
// millisecond, while moving a process costs 16. Fails with ENOSYS, EINVAL or EPERM where
// the kernel or a sandbox does not allow it.
pid_t fork_into(int cgroup, pid_t* pid, ForkWait wait = ForkWait::none);

// Moves this process into the control group of that directory, for systems where a child
// cannot be created there. A failure is not reported: the sweep still finds the process.
void enter_cgroup(int directory);

}  // namespace dlock
