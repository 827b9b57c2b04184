// dlock watch: what happens to locks, as it happens.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

Exit watch_verb(const Invocation& invocation);

}  // namespace dlock
