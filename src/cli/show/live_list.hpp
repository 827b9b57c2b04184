// dlock list --live: a table of all locks, kept up to date.
#pragma once

#include "cli/args/app.hpp"
#include "cli/args/exit_status.hpp"
#include "cli/args/options.hpp"

namespace dlock {

// Runs until a signal arrives or the output is closed. Throws Failure if the first look
// at the store fails.
Exit live_list_verb(const CommonOptions& common, const ListOptions& options);

}  // namespace dlock
