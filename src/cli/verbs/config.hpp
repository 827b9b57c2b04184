// dlock config: show every setting and where it comes from.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"

namespace dlock {

// Throws UsageError or Failure if the configuration file is invalid.
ExitStatus config_verb(const Invocation& invocation);

}  // namespace dlock
