// dlock acquire: take a lock and give the token to the caller.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

Exit acquire_verb(const Invocation& invocation);

}  // namespace dlock
