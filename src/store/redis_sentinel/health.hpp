// What is known of sentinels and the servers they watch, and what that means for locks.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lock/finding.hpp"
#include "store/redis_sentinel/votes.hpp"

namespace dlock::redis_sentinel {

// As far as they could be asked and said it.
struct SentinelFacts {
  std::string master;              // what they call the servers
  std::vector<std::string> names;  // of the sentinels, for messages
  std::vector<Ballot> ballots;     // in the same order
  std::vector<std::string> tilted;
  // After how long at the latest one of them takes the primary for dead.
  std::optional<milliseconds> down_after;
  // How far the clock of each replica is ahead of the primary's.
  std::vector<std::pair<std::string, std::chrono::microseconds>> clocks_ahead;
};

// A line for each check.
std::vector<Finding> findings_of(const SentinelFacts& facts);

}  // namespace dlock::redis_sentinel
