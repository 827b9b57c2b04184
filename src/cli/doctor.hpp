// dlock doctor: check the store and recommend fixes.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

ExitStatus doctor_verb(const Invocation& invocation);

}  // namespace dlock
