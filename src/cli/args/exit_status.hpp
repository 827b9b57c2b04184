// Every exit status of dlock itself.
#pragma once

#include <optional>

#include "supervise/spawn.hpp"
#include "util/failure.hpp"

namespace dlock {

// If the command ran to its end, its own status is used instead. A test checks the manual
// and --help against this list.
enum class ExitStatus : int {
  success = 0,
  not_held = 1,               // the lock is free (status, break)
  warnings_found = not_held,  // doctor
  errors_found = 2,           // doctor
  critical = errors_found,    // history --nagios: no success in time
  unknown = 3,                // history --nagios: any failure
  usage = 64,                 // EX_USAGE
  unavailable = 69,           // EX_UNAVAILABLE: the store cannot be reached
  bug = 70,                   // EX_SOFTWARE
  not_obtained = 75,          // EX_TEMPFAIL: held by others, wait over
  lost = 76,             // the lease ended while the command ran, or is no longer ours
  permission = 77,       // EX_NOPERM
  misconfigured = 78,    // EX_CONFIG
  timed_out = 124,       // as timeout(1)
  no_resources = 125,    // the command could not be started
  not_executable = 126,  // as sh
  not_found = 127,       // as sh
};

constexpr int code_of(ExitStatus status) { return static_cast<int>(status); }

// The exit status for a Failure.
constexpr ExitStatus status_of(Failure::Kind kind) {
  switch (kind) {
    case Failure::Kind::rejected: return ExitStatus::permission;
    case Failure::Kind::misconfigured:
    case Failure::Kind::unsupported: return ExitStatus::misconfigured;
    case Failure::Kind::exhausted: return ExitStatus::no_resources;
    case Failure::Kind::unreachable:
    case Failure::Kind::interrupted: break;
  }
  return ExitStatus::unavailable;
}

// The exit status for a command that could not be started.
constexpr ExitStatus status_of(SpawnFailure::Kind kind) {
  switch (kind) {
    case SpawnFailure::Kind::not_found: return ExitStatus::not_found;
    case SpawnFailure::Kind::not_executable: return ExitStatus::not_executable;
    case SpawnFailure::Kind::no_resources:
    case SpawnFailure::Kind::too_late: break;
  }
  return ExitStatus::no_resources;
}

// How dlock ends: with an exit code, or by a signal.
struct Exit {
  Exit(ExitStatus status = ExitStatus::success) : code(code_of(status)) {}
  Exit(int exit_code, std::optional<int> signal) : code(exit_code), by_signal(signal) {}

  int code;
  std::optional<int> by_signal;
};

}  // namespace dlock
