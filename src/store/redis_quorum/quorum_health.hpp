// What dlock doctor says of a quorum.
#pragma once

#include <vector>

#include "store/redis/redis_health.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {

// What is said of all servers together, then one finding for each check of the servers:
// the most severe, with the server's name.
Examination examination_of(std::vector<redis::RedisFacts> servers,
                           const QuorumTerms& terms);

}  // namespace dlock::redis_quorum
