// What the server keeps of a rate limit.
#pragma once

#include <optional>
#include <string>

#include "lock/rates.hpp"
#include "rules/limit.hpp"
#include "store/redis/reply.hpp"

namespace dlock::redis {

// By what the sets of a limit know one who asks: its token, its pid, and its host.
std::string member_of(const RateClaim& claim);

// A limit as the rules know it, at a moment of the server's clock.
struct KeptLimit {
  rules::LimitState state;
  Clock::time_point now;
};

// What look_at_limit.lua says; nothing if dlock has not written what is there. Whoever
// put an older dlock in line has no name.
std::optional<KeptLimit> kept_limit_from(const Reply& reply);

}  // namespace dlock::redis
