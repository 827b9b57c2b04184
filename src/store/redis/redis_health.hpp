// Judges servers by the facts about them: the table of the checks.
#pragma once

#include <vector>

#include "store/checks.hpp"
#include "store/redis/redis_facts.hpp"

namespace dlock::redis {

// What INFO and CONFIG GET are asked for: "INFO server".
std::vector<std::string> questions();

// A finding for each check; a check that depends on another follows it.
std::vector<Finding> findings_of(const RedisFacts& facts);

// For a store of several servers: adds the findings of each of them. Of those of one
// check the most severe stays, with the name of the server if it is a problem.
void add_findings_of(const std::vector<RedisFacts>& servers,
                     std::vector<Finding>& findings);

Examination examination_of(std::vector<Finding> findings,
                           const std::vector<RedisFacts>& servers);

}  // namespace dlock::redis
