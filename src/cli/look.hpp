// dlock status and dlock list: show what a store knows of locks.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"
#include "supervise/spawn.hpp"

namespace dlock {

ExitStatus status_verb(const Invocation& invocation);
Exit list_verb(const Invocation& invocation);

// The exit status for a Failure.
ExitStatus status_of(Failure::Kind kind);

// The exit status for a command that could not be started.
ExitStatus status_of(SpawnFailure::Kind kind);

}  // namespace dlock
