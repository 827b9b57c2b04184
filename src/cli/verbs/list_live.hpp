// dlock list --live: what it draws, and when it asks the store again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lock/lease.hpp"
#include "util/clock.hpp"

namespace dlock {

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
