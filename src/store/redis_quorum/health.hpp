// What is known of several servers, and what that means for locks.
#pragma once

#include <vector>

#include "lock/finding.hpp"
#include "store/plan.hpp"
#include "store/redis/health.hpp"

namespace dlock::redis_quorum {

// A line for each check of all together, and then those of each server that are not as
// they should be.
std::vector<Finding> findings_of(const std::vector<redis::Facts>& servers,
                                 const Terms& terms);

}  // namespace dlock::redis_quorum
