// dlock status and dlock list: show what a store knows of locks.
#pragma once

#include <memory>
#include <string>

#include "cli/app.hpp"
#include "cli/exit_status.hpp"
#include "lock/inspector.hpp"
#include "supervise/spawn.hpp"

namespace dlock {

ExitStatus status_verb(const Invocation& invocation);
Exit list_verb(const Invocation& invocation);

// Warns of the locks that the last list() or histories() has left out, if any. Then the
// status is that of a failure, so that no incomplete answer is taken for a complete one.
ExitStatus report_left_out(const LockInspector& inspector);

// Opens the store of the options; contacts nothing yet. It warns of servers whose word
// does not count, in lines about the lock `name`.
std::unique_ptr<Store> opened_store(const CommonOptions& common, milliseconds timeout,
                                    asio::io_context& context,
                                    const std::string& name = "");

// The exit status for a Failure.
ExitStatus status_of(Failure::Kind kind);

// The exit status for a command that could not be started.
ExitStatus status_of(SpawnFailure::Kind kind);

}  // namespace dlock
