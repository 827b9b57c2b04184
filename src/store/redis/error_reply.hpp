// What error replies mean.
#pragma once

#include <string>

#include "store/redis/reply.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

// The Failure for an error reply: unreachable if it can pass by itself, rejected or
// misconfigured if an administrator has to act.
Failure failure_from(const Reply& error, const std::string& server);

}  // namespace dlock::redis
