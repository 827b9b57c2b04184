// dlock status and dlock list: show what a store knows of locks.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"

namespace dlock {

ExitStatus status_verb(const Invocation& invocation);
Exit list_verb(const Invocation& invocation);

}  // namespace dlock
