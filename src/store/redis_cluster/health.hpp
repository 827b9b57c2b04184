// What is known of a cluster, and what that means for locks.
#pragma once

#include <optional>
#include <vector>

#include "lock/finding.hpp"
#include "store/redis/health.hpp"

namespace dlock::redis_cluster {

// As far as it could be asked and said it.
struct ClusterFacts {
  std::optional<Failure> failure;  // why the primaries are not known
  std::vector<redis::Facts> primaries;
  // After how long at the latest one of them takes another one for dead.
  std::optional<milliseconds> node_timeout;
};

// A line for each check, of the servers together; what is wrong with one names it.
std::vector<Finding> findings_of(const ClusterFacts& facts);

}  // namespace dlock::redis_cluster
