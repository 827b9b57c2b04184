// The findings of `dlock doctor`.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "util/clock.hpp"

namespace dlock {

struct Finding {
  enum class Level {
    ok,
    info,     // for information, or could not be checked; locks are not affected
    warning,  // locks work, but can be lost
    error,    // locks do not work
  };
  std::string check;  // "persistence"; the same name whatever the result
  Level level = Level::ok;
  std::string message;  // one line, printable
  std::string advice;   // what to do; empty if there is nothing to do
  bool is_made = true;  // false for a check that our permissions do not allow
};

struct Examination {
  std::vector<Finding> findings;
  std::optional<std::chrono::microseconds> round_trip;
  std::optional<milliseconds> smallest_ttl;  // that works with such a round trip
};

// The most serious level; ok if there are no findings.
Finding::Level worst_of(const std::vector<Finding>& findings);

}  // namespace dlock
