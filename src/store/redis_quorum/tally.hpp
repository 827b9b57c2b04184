// The result of the votes of several servers. Plain functions on values.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "store/redis_quorum/votes.hpp"

namespace dlock::redis_quorum {

// Granted with the same fence by a majority.
struct Held {
  Grant grant;  // it ends with the first of its votes
  std::size_t servers = 0;
};

// Granted by a majority with different fences: a majority has to adopt `fence`, the
// greatest of them, before the grant counts.
struct Uneven {
  Fence fence;
};

// Some have granted it, but no claim is known to have a majority: the claimants have
// split the votes.
struct Split {
  Busy busy;
  bool is_next = false;      // this claim is first in every queue in which it waits
  bool may_be_held = false;  // with the servers that did not reply, another may have one
};

using Outcome = std::variant<Held, Uneven, Split, Answer, Failure>;

// The result of one round; replies of earlier rounds do not count. The votes are
// screened(). In this order:
//   - fails if two that replied are the same server;
//   - fails as unreachable, rejected, misconfigured or exhausted if too few have a vote;
//   - deduplicated if a majority reports a run: a vote alone is not a run;
//   - SlotsDiffer, HeldByOuterRun and Superseded if a majority says so;
//   - granted if a majority has granted it;
//   - busy otherwise.
// The slot of a grant is always 0.
Outcome tally(const Votes& votes);

// Whether the missing votes cannot change whether a majority grants the claim.
bool is_certain(const Votes& votes);

// The result of a renewal: confirmed (or broken, if as many servers say so as a break has
// reached at least) if a majority confirms it; reclaimed if it takes servers that have
// set the lease up again to reach a majority; lost as soon as a majority can no longer
// confirm it; otherwise unreachable.
std::variant<Renewal, Failure> tally(const RenewalReplies& confirmations);
bool is_certain(const RenewalReplies& confirmations);

// Whether the server reports that it no longer has the lease.
bool is_missing(const MaybeReply<Renewal>& said);

// The result of a release: broken if as many servers say so as a break has reached at
// least; lost if the servers that still had the lease were not a majority; otherwise
// released if any server has released it and a majority may have had it, else not ours
// (as when a lease has expired on all servers but one). Unreachable if too few have
// replied. `relied`: a run has relied on the lease, so a server that does not know it
// counts as having lost it.
std::variant<Release, Failure> tally(const ReleaseReplies& returns, bool relied);

// A Failure (misconfigured) if two servers have the same run_id; empty ones do not count.
std::optional<Failure> same_server_in(std::vector<std::string> run_ids);

// "1 of 3 servers reply, 2 required: ", followed by the first failure, and the first of
// another kind; or, in the place of "reply", what else those servers do. Exhausted if any
// failure is; rejected or misconfigured if too many failures are for a majority to be
// possible without them; otherwise unreachable.
Failure too_few(std::size_t count, std::size_t servers,
                const std::vector<Failure>& failures,
                std::string_view what_they_do = "reply");

}  // namespace dlock::redis_quorum
