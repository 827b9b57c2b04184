// Judges sentinels and the servers that they watch: findings from the facts about them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lock/finding.hpp"
#include "store/redis_sentinel/votes.hpp"

namespace dlock::redis_sentinel {

// What they have reported; fields are empty where they did not.
struct SentinelFacts {
  std::string master;              // the master name
  std::vector<std::string> names;  // of the sentinels, for messages
  std::vector<Ballot> ballots;     // in the same order
  std::vector<std::string> tilted;
  // The longest time after which one of them considers the primary dead.
  std::optional<milliseconds> down_after;
  // How far the clock of each replica is ahead of the primary's.
  std::vector<std::pair<std::string, std::chrono::microseconds>> clocks_ahead;
};

// One finding for each check.
std::vector<Finding> findings_of(const SentinelFacts& facts);

}  // namespace dlock::redis_sentinel
