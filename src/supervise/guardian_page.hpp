// What dlock and its guardian share: one mapping, and bytes over a socket.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lock/clock.hpp"

namespace dlock {

// dlock writes the deadline, the environment and the word to go, the guardian and its
// child all else. Plain members are valid from the phase on that they are said to belong
// to.
struct GuardianPage {
  enum class Phase : int {
    idle,     // no command yet
    running,  // it was started: pid, not_before, not_after
    failed,   // it could not be: failed_at, error, path
    over,     // all has ended: wait_status, timed_out, loss
  };
  // The step that failed; `wait`: it was killed before it was to start.
  enum class Step : int { none, settle, fork, wait, become, exec, too_late };

  // In nanoseconds of boot time until when the lease surely holds; `never`: it does not
  // run out. Once the guardian has put `ending` there, nothing can extend it: the command
  // is being ended, and the run is lost. Both in one word, so that no renewal can come in
  // between.
  static constexpr std::int64_t never = INT64_MAX;
  static constexpr std::int64_t ending = INT64_MIN;
  std::atomic<std::int64_t> deadline{never};

  std::atomic<Phase> phase{Phase::idle};

  // The process that becomes the command is made beforehand, and waits here until this is
  // not 0 (futex(2)); when that was is in `told_at`, which is written first.
  std::atomic<std::uint32_t> go{0};
  Clock::time_point told_at{};
  std::atomic<bool> is_becoming{false};  // it has begun to be the command, or tried

  // From when it was made on.
  pid_t pid = 0;
  Clock::time_point not_before{};
  Clock::time_point not_after{};

  Step failed_at = Step::none;
  int error = 0;
  std::size_t path = 0;

  int wait_status = 0;
  bool timed_out = false;
  int loss = -1;  // a Loss

  // How many processes may not be killed by us; known while they are being ended.
  std::atomic<int> refused{0};

  // Whether they have been killed for long and are still not gone.
  std::atomic<bool> fled{false};

  // Whether the guardian has a cgroup for the command, or is about to make one.
  std::atomic<bool> has_cgroup{false};

  // NAME=value strings and a null, in the rest of the mapping.
  char** environment = nullptr;
};

// What dlock tells its guardian once the command is to start, a byte each. Numbers of
// signals are to be passed on to the command.
namespace tell {
constexpr std::uint8_t sooner = 0;   // the deadline is sooner than it was
constexpr std::uint8_t lost = 0x80;  // plus the Loss: certainly not ours any more
}  // namespace tell

}  // namespace dlock
