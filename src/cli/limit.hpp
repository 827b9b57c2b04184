// dlock limit: be admitted so many times in a period, and perhaps run a command then.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

Exit limit_verb(const Invocation& invocation);

}  // namespace dlock
