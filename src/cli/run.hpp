// dlock run: hold a lock while a command runs.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

Exit run_verb(const Invocation& invocation);

}  // namespace dlock
