// What `list --live` draws, and when it refreshes.
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

struct Window {
  std::size_t columns = 0;
  std::size_t rows = 0;
};

// The lines of `text`, cut to the window, followed by `last` unless it is empty. If there
// are too many lines, "and N more" replaces the rest.
std::vector<std::string> lines_within(const std::string& text, const std::string& last,
                                      const Window& window);

// The control sequences that draw these lines over the old ones. The screen is not
// cleared first, because that would flicker.
std::string drawn(const std::vector<std::string>& lines);

// The last line while the store is unavailable.
std::string trouble_text(milliseconds age, const std::string& why);

}  // namespace dlock
