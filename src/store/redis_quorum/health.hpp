// Judges a quorum: findings from the facts about its servers.
#pragma once

#include <vector>

#include "lock/finding.hpp"
#include "store/plan.hpp"
#include "store/redis/health.hpp"

namespace dlock::redis_quorum {

// The findings about all servers together, then one for each check of the servers: the
// most severe, with the server's name.
std::vector<Finding> findings_of(const std::vector<redis::Facts>& servers,
                                 const QuorumTerms& terms);

}  // namespace dlock::redis_quorum
