// dlock acquire: take a lock for somebody else, who is given the token.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"

namespace dlock {

Exit acquire_verb(const Invocation& invocation);

}  // namespace dlock
