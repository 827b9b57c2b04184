// The arguments of the scripts that are run for a claim (ARGV there; each script says
// what it takes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "store/redis/ballot.hpp"

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
                         const std::string& user);

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

// For reclaim.lua.
std::vector<std::string> reclaim_arguments(const Claim& claim, const Grant& grant);

}  // namespace dlock::redis
