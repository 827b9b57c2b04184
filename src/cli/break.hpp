// dlock break: take a lock from its holders.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

ExitStatus break_verb(const Invocation& invocation);

}  // namespace dlock
