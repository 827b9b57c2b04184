// dlock status and dlock list: what a store knows, shown.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"
#include "supervise/spawn.hpp"

namespace dlock {

ExitStatus status_verb(const Invocation& invocation);
Exit list_verb(const Invocation& invocation);

// The status that a Failure ends dlock with.
ExitStatus status_of(Failure::Kind kind);

// What a command that could not be started exits with.
ExitStatus status_of(SpawnFailure::Kind kind);

}  // namespace dlock
