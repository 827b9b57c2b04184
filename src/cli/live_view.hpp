// What `list --live` shows, and when it looks and draws.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lock/clock.hpp"
#include "lock/lease.hpp"

namespace dlock {

// The locks as they are so much later if nothing has happened.
std::vector<LockInfo> aged(std::vector<LockInfo> locks, milliseconds by);

// The same text for two looks if the tables of the two differ in durations alone.
std::string fingerprint_of(const std::vector<LockInfo>& locks);

// When to look at the store after a look that ended then, if an event has come since.
Clock::time_point next_look(Clock::time_point last, bool has_changed);

struct Window {
  std::size_t columns = 0;
  std::size_t rows = 0;
};

// The lines of `text`, cut to the window, with "and N more" in place of those for which
// it is not high enough, and `last`, unless it is empty, below them.
std::vector<std::string> lines_within(const std::string& text, const std::string& last,
                                      const Window& window);

// What draws these lines on a terminal over what is there, without clearing it first,
// which would flicker.
std::string drawn(const std::vector<std::string>& lines);

// The last line while the store cannot be looked at.
std::string trouble_text(milliseconds age, const std::string& why);

}  // namespace dlock
