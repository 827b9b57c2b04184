// What error replies mean.
#pragma once

#include <string>

#include "store/redis/reply.hpp"
#include "util/failure.hpp"

namespace dlock::redis {

// What an error reply means to the caller: what passes by itself is unreachable, what an
// administrator has to change is rejected or misconfigured.
Failure failure_from(const Reply& error, const std::string& server);

}  // namespace dlock::redis
