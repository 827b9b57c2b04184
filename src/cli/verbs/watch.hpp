// dlock watch: print lock events as they happen.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"

namespace dlock {

Exit watch_verb(const Invocation& invocation);

}  // namespace dlock
