// The verb `cache`: what a command prints, out of the store if it is there.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

// Throws UsageError and Failure.
Exit cache_verb(const Invocation& invocation);

}  // namespace dlock
