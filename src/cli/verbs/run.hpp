// dlock run: hold a lock while a command runs.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"

namespace dlock {

Exit run_verb(const Invocation& invocation);

}  // namespace dlock
