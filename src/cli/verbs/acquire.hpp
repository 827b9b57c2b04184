// dlock acquire: take a lock and give the token to the caller.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"

namespace dlock {

Exit acquire_verb(const Invocation& invocation);

}  // namespace dlock
