// dlock doctor: check the store and recommend fixes.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"

namespace dlock {

ExitStatus doctor_verb(const Invocation& invocation);

}  // namespace dlock
