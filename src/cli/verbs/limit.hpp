// dlock limit: admit a caller within a rate, and then run its command, if any.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"

namespace dlock {

Exit limit_verb(const Invocation& invocation);

}  // namespace dlock
