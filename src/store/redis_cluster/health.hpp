// Judges a cluster: findings from the facts about it.
#pragma once

#include <optional>
#include <vector>

#include "lock/finding.hpp"
#include "store/redis/health.hpp"

namespace dlock::redis_cluster {

// What its members have reported.
struct ClusterFacts {
  std::optional<Failure> failure;  // why the primaries are not known
  std::vector<redis::Facts> primaries;
  // The longest time after which a member considers another one dead.
  std::optional<milliseconds> node_timeout;
};

// One finding for each check of all servers together; a problem of one server names it.
std::vector<Finding> findings_of(const ClusterFacts& facts);

}  // namespace dlock::redis_cluster
