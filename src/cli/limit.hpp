// dlock limit: admit a caller within a rate, and then run its command, if any.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

Exit limit_verb(const Invocation& invocation);

}  // namespace dlock
