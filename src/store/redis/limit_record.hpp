// The server's record of a rate limit.
#pragma once

#include <optional>
#include <string>

#include "lock/lease.hpp"
#include "rules/limit.hpp"
#include "store/redis/reply.hpp"

namespace dlock::redis {

// The member of the limit's sets for a claim: its token, pid and host.
std::string member_of(const RateClaim& claim);

// The state of a limit at a moment of the server's clock.
struct KeptLimit {
  rules::LimitState state;
  Clock::time_point now;
};

// From the reply of look_at_limit.lua; nothing if dlock did not write the record. Waiters
// of older versions of dlock have no name.
std::optional<KeptLimit> kept_limit_from(const Reply& reply);

}  // namespace dlock::redis
