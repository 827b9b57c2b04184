// The guardian process, which runs between dlock and the command, and what dlock shares
// with it: one memory mapping, and bytes over a socket.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "supervise/ladder.hpp"
#include "supervise/signals.hpp"
#include "supervise/spawn.hpp"
#include "util/clock.hpp"

namespace dlock {

// dlock writes the deadline, the environment, `go` and is_group_awaited; the guardian and
// its child write everything else. Plain members are valid from the phase that they
// belong to.
struct GuardianPage {
  enum class Phase : int {
    idle,     // no command yet
    running,  // the command was started: pid, not_before, not_after
    failed,   // it could not be started: failed_at, error, path
    over,     // the run has ended: wait_status, timed_out, loss
  };
  // The step that failed; `wait`: the process was killed before it could start.
  enum class Step : int { none, settle, fork, wait, become, exec, too_late };

  // Until when the lease holds for certain, in nanoseconds since boot; `never`: it does
  // not expire. Once the guardian has stored `ending`, nothing can extend it: the command
  // is being stopped and the run is lost. Both share one word, so that no renewal can
  // come in between.
  static constexpr std::int64_t never = INT64_MAX;
  static constexpr std::int64_t ending = INT64_MIN;
  std::atomic<std::int64_t> deadline{never};

  std::atomic<Phase> phase{Phase::idle};

  // The process that becomes the command is forked in advance and waits here until this
  // is not 0 (futex(2)); `told_at`, written first, says when that was.
  std::atomic<std::uint32_t> go{0};
  Clock::time_point told_at{};
  std::atomic<bool> is_becoming{false};  // it has begun to exec the command

  // Whether it is in the command's process group. If that is the caller's, the terminal's
  // signals reach it from then on; it blocks them until it execs the command.
  std::atomic<bool> is_in_group{false};

  // Whether dlock waits for that and has to be notified. It stores this before it reads
  // is_in_group, and the guardian reads this after it has stored is_in_group, so that one
  // of them sees the other's.
  std::atomic<bool> is_group_awaited{false};

  // Valid from the fork of that process on.
  pid_t pid = 0;
  Clock::time_point not_before{};
  Clock::time_point not_after{};

  Step failed_at = Step::none;
  int error = 0;
  std::size_t path = 0;

  int wait_status = 0;
  bool timed_out = false;
  int loss = -1;  // a Loss

  // How many processes we have no permission to kill; known while they are being killed.
  std::atomic<int> refused{0};

  // Whether they were sent TERM, or the first KILL, on the Ladder's decision.
  std::atomic<bool> is_stopping{false};

  // Whether they were killed more than report_stuck_after ago and have still not exited.
  std::atomic<bool> stuck{false};

  // Whether the guardian has created a cgroup for the command, or is about to.
  std::atomic<bool> has_cgroup{false};

  // NAME=value strings and a final null, in the rest of the mapping.
  char** environment = nullptr;
};

// The messages from dlock to its guardian once the command may start, one byte each. A
// signal's number means: forward it to the command.
namespace guardian_message {
constexpr std::uint8_t sooner = 0;   // the deadline is earlier than before
constexpr std::uint8_t lost = 0x80;  // plus the Loss: the lease is lost for certain
// Plus a signal's number: forward it if the command is not in dlock's process group, all
// of which has got it.
constexpr std::uint8_t reached_group = 0xC0;
}  // namespace guardian_message

// Its parameters, set before the fork.
struct GuardianTask {
  GuardianPage& page;
  pid_t owner;          // dlock, its parent while dlock lives
  int channel;          // a stream socket to dlock; end of file: dlock has exited
  int timer;            // a timer on boot time, not armed
  pid_t callers_group;  // the command returns to it, unless it gets its own group
  SupervisionPlan plan;
  const std::vector<std::string>& paths;
  char* const* argv;
  const SignalState& signals;
  CommandStreams streams;
};

// Forks the process that becomes the command when dlock says so. Stops the command and
// its processes when dlock says so, when the timeout passes, when dlock has exited, or
// when the rest of the lease is needed to stop them in time. Exits this process.
//
// It allocates nothing, writes no output, and waits only for its socket, its timer and
// its children. It finds deeper descendants through /proc; where that fails, it finds
// them once their parents have exited.
[[noreturn]] void guard(const GuardianTask& task);

}  // namespace dlock
