// The arguments of the scripts that are run for a claim (ARGV there; each script says
// what it takes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "lock/store.hpp"
#include "store/redis/reply.hpp"

namespace dlock::redis {

// How long after a connection was closed a request may still arrive: the kernel stops
// retransmitting after some 100 s.
inline constexpr milliseconds comes_late_by{120'000};

// Who claims a lock, as `status` shows it, in one line of JSON.
std::string party_text(const Claim& claim);

// Who takes a lock from its holders, in the same way.
std::string taker_text();

// How a run ended, in the JSON that the server keeps.
std::string run_end_text(const RunEnd& end, const std::string& host,
                         const std::string& user, const Claim& claim = {});

struct Ballot {
  // The fence for a grant, whatever the server's clock says; if the server has granted
  // one at least as great before, the next greater one.
  Fence fence;
  // Whether a lease that the claim already has there is raised to this fence.
  bool raises = false;
  // Whether the lease is known to hold with exactly this fence, and is only missing here.
  bool is_repair = false;
  // The order in the queue, the same on all servers; 0: by the server's clock.
  std::int64_t ticket = 0;
};

// For ask.lua. `arrived` is the server's time when the claim entered the queue, or 0.
// Without a ballot, the grant has to have a greater fence than `fence_floor`.
std::vector<std::string> ask_arguments(const Claim& claim, Queue queue,
                                       const std::string& waiter_id, std::int64_t arrived,
                                       Fence fence_floor,
                                       const std::optional<Ballot>& ballot);

// For release.lua, for a claim that was granted `fence`, if any; `end` is how its run
// ended. If an earlier request may still arrive, the server will refuse it.
std::vector<std::string> release_arguments(const Claim& claim,
                                           const std::optional<RunEnd>& end,
                                           const std::string& waiter_id, Fence fence,
                                           bool may_come_late);

// For release.lua, for a grant that does not count; the claim may ask again.
std::vector<std::string> revoke_arguments(const Claim& claim,
                                          const std::string& waiter_id, Fence fence);

// For renew.lua (an attached lease) or set_lease.lua (a detached one).
std::vector<std::string> renew_arguments(const Claim& claim, Fence fence);

// For reclaim.lua. `after` is that of the reply with the grant.
std::vector<std::string> reclaim_arguments(const Claim& claim, const Grant& grant,
                                           const std::string& after);

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
  // With Busy, for a waiter far back in the queue, for which others also watch: how long
  // it is not notified and needs no connection.
  std::optional<milliseconds> parked_for{};
  // With a grant: names the grant before it; empty if that is unknown, or was said
  // before.
  std::string after{};
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
// list; nothing if it should ask now, which any other element also means.
std::optional<milliseconds> pause_from(const Reply& popped);

// The lease of `claim`, if the popped element says that the releasing holder has handed
// the lock over to this waiter (grant_to_waiter() in turns.lua). The lease began after
// the last reply, so it is counted from when that was requested, `sent_at`.
std::optional<AskReply> handed_over_from(const Reply& popped, const Claim& claim,
                                         Clock::time_point sent_at);

// The reply of limit.lua.
std::optional<RateAnswer> rate_answer_from(const Reply& reply);

}  // namespace dlock::redis
