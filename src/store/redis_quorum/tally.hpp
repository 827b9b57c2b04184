// The result of the votes of several servers. Plain functions on values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "lock/answers.hpp"
#include "lock/lease.hpp"
#include "util/clock.hpp"
#include "util/failure.hpp"

namespace dlock::redis_quorum {

// How many servers form a majority: any two sets of this size have a server in common.
constexpr std::size_t needed(std::size_t servers) { return servers / 2 + 1; }

// Any set of this size has a server in common with every set of needed() servers.
constexpr std::size_t in_every_majority(std::size_t servers) {
  return servers - needed(servers) + 1;
}

// How many of the `having` servers that have a lease are marked as broken at least, if a
// break has reached a majority of the servers.
constexpr std::size_t marked_at_least(std::size_t servers, std::size_t having) {
  const auto reached = having + needed(servers);
  return reached > servers ? reached - servers : 1;
}

// How many of the `held` servers that keep a lease may forget it before needed() servers
// could grant the lock to another claim. Negative if too few keep it.
constexpr int strength(std::size_t servers, std::size_t held) {
  return static_cast<int>(held + needed(servers)) - static_cast<int>(servers) - 1;
}

// Identifies a holder or a run across the reports of several servers: fence, host and
// pid. A fence alone does not identify a holder: servers with equal
// counters can grant the same fence to different claims.
using Identity = std::tuple<Fence, std::string, pid_t>;

// A holder of another program has no fence, and is treated as the same one on all
// servers.
inline Identity identity_of(const HolderInfo& holder) {
  if (holder.foreign) return {};
  return {holder.fence, holder.host, holder.pid};
}

// The pid of a run is unknown.
inline Identity identity_of(const RunInfo& run) { return {run.fence, run.host, 0}; }

// The reply of one server to a claim; neither `answer` nor `failure` if it did not reply.
struct Vote {
  std::optional<Answer> answer;
  std::optional<Failure> failure;
  std::string run_id;        // of the server that replied; different after each restart
  WallTime server_time{};    // with Busy
  std::string server;        // its name, for messages
  bool has_no_vote = false;  // it replied, and `failure` is why_no_vote()

  const Grant* grant() const { return answer ? std::get_if<Grant>(&*answer) : nullptr; }
  const Busy* busy() const { return answer ? std::get_if<Busy>(&*answer) : nullptr; }
};
using Votes = std::vector<Vote>;

// Why `server` has no vote, if it has none: it may have forgotten a lease when it was
// restarted, and that lease has ended for certain only when the server has been `up` for
// as long as the longest lease.
std::optional<Failure> why_no_vote(const std::string& server, milliseconds up,
                                   milliseconds max_ttl);

// The vote, or `no_vote` in its place if that is set.
Vote counted(Vote vote, std::optional<Failure> no_vote);

// Whether only an administrator can help: waiting does not.
inline bool is_for_administrators(const Failure& failure) {
  return failure.kind() == Failure::Kind::misconfigured ||
         failure.kind() == Failure::Kind::rejected;
}

// The reply of one server to another request; nothing if it did not reply.
template <typename T>
using MaybeReply = std::optional<std::variant<T, Failure>>;

using RenewalReplies = std::vector<MaybeReply<Renewal>>;  // to a renewal
using ReleaseReplies = std::vector<MaybeReply<Release>>;  // to a release

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

using TallyResult = std::variant<Held, Uneven, Split, Answer, Failure>;

// The result of one round; replies of earlier rounds do not count. The votes are
// screened(). In this order:
//   - fails if two that replied are the same server;
//   - fails as unreachable, rejected, misconfigured or exhausted if too few have a vote;
//   - deduplicated if a majority reports a run: a vote alone is not a run;
//   - SlotsDiffer, HeldByOuterRun and Superseded if a majority says so;
//   - granted if a majority has granted it;
//   - busy otherwise.
// The slot of a grant is always 0.
TallyResult tally(const Votes& votes);

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
