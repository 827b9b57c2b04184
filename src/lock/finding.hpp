// What an examination of a store finds.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lock/clock.hpp"

namespace dlock {

struct Finding {
  enum class Level {
    ok,
    info,     // good to know, or not to be found out; locks are as good as ever
    warning,  // locks work, and can be lost
    error,    // locks do not work
  };
  std::string check;  // "persistence"; the same word whatever is found
  Level level = Level::ok;
  std::string message;  // one line, printable
  std::string advice;   // what to do; empty where there is nothing
  bool is_made = true;  // false for a check that our rights do not reach for
};

struct Examination {
  std::vector<Finding> findings;
  std::optional<std::chrono::microseconds> round_trip;
  std::optional<milliseconds> smallest_ttl;  // that such a round trip is good for
};

// The gravest level of them; ok if there are none.
Finding::Level worst_of(const std::vector<Finding>& findings);

}  // namespace dlock
