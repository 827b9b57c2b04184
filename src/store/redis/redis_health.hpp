// Judges a server: findings from the facts about it.
#pragma once

#include <vector>

#include "lock/store.hpp"
#include "store/redis/redis_facts.hpp"

namespace dlock::redis {

// One finding for each check; a check that depends on another follows it.
std::vector<Finding> findings_of(const RedisFacts& facts);

// For a store of several servers: adds the findings of each of them. Of those of one
// check the most severe stays, with the name of the server if it is a problem.
void add_findings_of(std::span<const RedisFacts> servers, std::vector<Finding>& findings);

// With the round trip of the slowest of these servers, and the shortest lease for it.
Examination examination_of(std::vector<Finding> findings,
                           std::span<const RedisFacts> servers);

}  // namespace dlock::redis
