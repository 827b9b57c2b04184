// What the scripts answer, as values. Only the exact shape that a script returns counts:
// anything else is nonsense, and never a grant.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lock/lease_watcher.hpp"
#include "lock/store.hpp"
#include "store/redis/reply.hpp"

namespace dlock::redis {

// What ask.lua says.
struct Heard {
  Answer answer;
  // With Busy: for how many milliseconds what blocks the claim can last; -1 if nobody
  // knows, -2 if others watch for its end.
  std::int64_t blocked_for = -1;
  WallTime server_time{0};          // with Busy
  std::optional<Taker> taken_by{};  // with a grant that is broken
};

// Nothing if `reply` to `claim`, sent at `sent_at`, is nonsense.
std::optional<Heard> heard_from(const Reply& reply, const Claim& claim,
                                Clock::time_point sent_at);

// The same for renew.lua, reclaim.lua or set_lease.lua, for release.lua, and for
// admit_fence.lua.
std::optional<Renewal> renewal_from(const Reply& reply);
std::optional<Release> release_from(const Reply& reply);
std::optional<Admission> admission_from(const Reply& reply);

// Who has broken the lease, if renew.lua or release.lua says that it is.
std::optional<Taker> taker_from(const Reply& reply);

// Whom break.lua has taken the lock from.
std::optional<std::vector<HolderInfo>> broken_from(const Reply& reply);

// How long one that waits has still to do so before it asks again, if that is what came
// on its list; nothing if it is to ask now, which whatever else comes means, too.
std::optional<milliseconds> pause_from(const Reply& popped);

// The lease of `claim`, if what came on the list is that who released has given it to
// this waiter (grant_to_waiter() in turns.lua). It began behind the last answer, so it is
// counted from when that was asked for, `sent_at`.
std::optional<Grant> handed_from(const Reply& popped, const Claim& claim,
                                 Clock::time_point sent_at);

// What limit.lua says.
std::optional<RateAnswer> rate_answer_from(const Reply& reply);

}  // namespace dlock::redis
