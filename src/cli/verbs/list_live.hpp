#pragma once

#include <string>
#include <vector>

#include "cli/args/app.hpp"
#include "cli/args/options.hpp"
#include "lock/lease.hpp"
#include "util/clock.hpp"

namespace dlock {

// list --live: a table of the locks, kept up to date until a signal arrives or the output
// is closed. Throws Failure if the first look at the store fails.
Exit list_live(const CommonOptions& common, const ListOptions& options);

// The locks as they would be after `by` if nothing else happened.
std::vector<LockInfo> aged(std::vector<LockInfo> locks, milliseconds by);

// A text that is the same for two lists of locks whose tables differ only in durations.
std::string fingerprint_of(const std::vector<LockInfo>& locks);

// When to query the store again after a query that ended at `last`; sooner if an event
// has arrived since.
Clock::time_point next_look(Clock::time_point last, bool has_changed);

// The last line while the store is unavailable.
std::string trouble_text(milliseconds age, const std::string& why);

}  // namespace dlock
