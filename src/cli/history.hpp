// dlock history: the last runs of locks, and whether one has succeeded lately.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

ExitStatus history_verb(const Invocation& invocation);

}  // namespace dlock
