// dlock cache: print a command's output, from the store if it is cached there.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"

namespace dlock {

// Throws UsageError and Failure.
Exit cache_verb(const Invocation& invocation);

}  // namespace dlock
