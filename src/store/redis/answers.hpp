// The replies of the scripts as values. Only the exact shape that a script returns is
// accepted; anything else is invalid, and never a grant.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lock/answers.hpp"
#include "lock/store.hpp"
#include "store/redis/reply.hpp"

namespace dlock::redis {

// AskReply::blocked_for, if other waiters watch for the end.
inline constexpr std::int64_t others_watch = -2;

// The reply of ask.lua.
struct AskReply {
  Answer answer;
  // With Busy: for how many milliseconds at most the claim is blocked; -1 if that is
  // unknown, or `others_watch`.
  std::int64_t blocked_for = -1;
  WallTime server_time{0};          // with Busy
  std::optional<Taker> taken_by{};  // with a grant that is broken
  // With Busy, for a waiter far back in the queue, for which others watch, too: how long
  // it is not notified and needs no connection.
  std::optional<milliseconds> parked_for{};
};

// Nothing if `reply` to `claim`, sent at `sent_at`, is invalid.
std::optional<AskReply> ask_reply_from(const Reply& reply, const Claim& claim,
                                       Clock::time_point sent_at);

// The same for renew.lua, reclaim.lua or set_lease.lua, for release.lua, and for
// admit_fence.lua.
std::optional<Renewal> renewal_from(const Reply& reply);
// The ttl that set_lease.lua has set, if it did.
std::optional<milliseconds> renewed_ttl_from(const Reply& reply);
std::optional<Release> release_from(const Reply& reply);
std::optional<Admission> admission_from(const Reply& reply);

// Who has broken the lease, if renew.lua or release.lua reports that it is broken.
std::optional<Taker> taker_from(const Reply& reply);

// The holders from which break.lua has taken the lock.
std::optional<std::vector<HolderInfo>> broken_from(const Reply& reply);

// How long a waiter has to wait before it asks again, if that is what it popped from its
// list; nothing if it should ask now, which any other element means, too.
std::optional<milliseconds> pause_from(const Reply& popped);

// The lease of `claim`, if the popped element says that the releasing holder has handed
// the lock over to this waiter (grant_to_waiter() in turns.lua). The lease began after
// the last reply, so it is counted from when that was requested, `sent_at`.
std::optional<Grant> handed_over_from(const Reply& popped, const Claim& claim,
                                      Clock::time_point sent_at);

// The reply of limit.lua.
std::optional<RateAnswer> rate_answer_from(const Reply& reply);

}  // namespace dlock::redis
