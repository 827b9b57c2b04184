// dlock cache: print a command's output, from the store if it is cached there.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

// Throws UsageError and Failure.
Exit cache_verb(const Invocation& invocation);

}  // namespace dlock
