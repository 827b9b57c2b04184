// dlock history: show the last runs of locks, or whether one has succeeded recently.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

ExitStatus history_verb(const Invocation& invocation);

}  // namespace dlock
