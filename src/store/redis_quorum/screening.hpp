// Strikes out what only a minority of the servers says. Plain functions on values.
#pragma once

#include <string>
#include <vector>

#include "store/redis_quorum/votes.hpp"
#include "util/clock.hpp"

namespace dlock::redis_quorum {

// One server of several may be wrong, or lie. So these become failed votes
// (misconfigured):
//   - a grant with an implausible fence (greatest_plausible_fence());
//   - a run that has ended and would deduplicate the claim, other slots, and an outer run
//     that holds the lock, unless a majority reports them.
Votes screened(Votes votes, WallTime now);

// What the user should know about the servers whose votes failed though they were
// reached: one message for each that is misconfigured, refuses the login, or was struck
// out.
std::vector<std::string> complaints_about(const Votes& votes);

}  // namespace dlock::redis_quorum
