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

// For how long a request can be on its way though its connection is closed: the kernel
// stops retransmitting after some 100 s.
inline constexpr milliseconds comes_late_by{120'000};

// The name of the account that this process is of.
const std::string& own_user();

// Who claims a lock, as `status` shows it, in one line of JSON.
std::string party_text(const Claim& claim);

// Who takes a lock from its holders, in the same way.
std::string taker_text();

// How a run ended, as it is kept: JSON.
std::string run_end_text(const RunEnd& end, const std::string& host,
                         const std::string& user);

// ask.lua. `arrived` is the time by the server when the claim first had a place in the
// queue, or 0.
std::vector<std::string> ask_arguments(const Claim& claim, Queue queue,
                                       const std::string& waiter_id, std::int64_t arrived,
                                       const std::optional<Ballot>& ballot);

// release.lua, for a claim of which `fence` was granted, if any; `end` is how its run
// ended. If a request may come late, it is refused when it does.
std::vector<std::string> release_arguments(const Claim& claim,
                                           const std::optional<RunEnd>& end,
                                           const std::string& waiter_id, Fence fence,
                                           bool may_come_late);

// release.lua, for a grant that does not count; the claim may ask again.
std::vector<std::string> revoke_arguments(const Claim& claim,
                                          const std::string& waiter_id, Fence fence);

// renew.lua for an attached lease, set_lease.lua for one by hand.
std::vector<std::string> renew_arguments(const Claim& claim, Fence fence);

// reclaim.lua.
std::vector<std::string> reclaim_arguments(const Claim& claim, const Grant& grant);

}  // namespace dlock::redis
