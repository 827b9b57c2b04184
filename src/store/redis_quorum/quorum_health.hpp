// What dlock doctor says of a quorum.
#pragma once

#include <vector>

#include "store/redis/redis_health.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {

// The findings of dlock doctor about all servers together, then one for each check of the
// servers: the most severe, with the server's name.
std::vector<Finding> findings_of(std::vector<redis::RedisFacts> servers,
                                 const QuorumTerms& terms);

}  // namespace dlock::redis_quorum
