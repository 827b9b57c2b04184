// dlock list --live: the table of all locks, kept up to date.
#pragma once

#include "cli/app.hpp"
#include "cli/exit_status.hpp"
#include "cli/options.hpp"

namespace dlock {

// Until a signal ends it, or nobody reads it any more. Throws Failure if the store cannot
// even be looked at once.
Exit live_list_verb(const CommonOptions& common, const ListOptions& options);

}  // namespace dlock
