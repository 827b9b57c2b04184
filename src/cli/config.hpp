// The verb `config`: every setting in force, and where it comes from.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

// Throws UsageError and Failure, both for a file that cannot be right.
ExitStatus config_verb(const Invocation& invocation);

}  // namespace dlock
