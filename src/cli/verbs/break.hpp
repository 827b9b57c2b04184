// dlock break: take a lock from its holders.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"

namespace dlock {

ExitStatus break_verb(const Invocation& invocation);

}  // namespace dlock
