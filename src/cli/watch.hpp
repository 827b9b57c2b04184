// dlock watch: print lock events as they happen.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

Exit watch_verb(const Invocation& invocation);

}  // namespace dlock
