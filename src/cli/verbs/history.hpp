// dlock history: show the last runs of locks, or whether one has succeeded recently.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"

namespace dlock {

ExitStatus history_verb(const Invocation& invocation);

}  // namespace dlock
