// dlock doctor: what is wrong with a store, and what to do about it.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

ExitStatus doctor_verb(const Invocation& invocation);

}  // namespace dlock
