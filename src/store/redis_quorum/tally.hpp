// What the votes of several servers come to. Plain functions on values.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "store/redis_quorum/votes.hpp"

namespace dlock::redis_quorum {

// Granted with the same fence by most of them.
struct Held {
  Grant grant;  // it ends where the first of its votes ends
  std::size_t servers = 0;
};

// Granted by most of them, whose counters stood apart: most have to be told this fence
// before it counts, the greatest of those that they gave.
struct Uneven {
  Fence fence;
};

// Some have granted it, and nobody else is seen to have most of them either: those who
// want the lock have taken each other's votes.
struct Split {
  Busy busy;
  bool is_next = false;      // this one is the first in line wherever it waits
  bool may_be_held = false;  // with the servers that are silent somebody may have most
};

using Outcome = std::variant<Held, Uneven, Split, Answer, Failure>;

// A vote counts for itself alone: what a server said in an earlier round is no part of
// this. In this order:
//   - fails if one is misconfigured, or two that have answered are the same server;
//   - fails as unreachable, rejected or exhausted if too few have answered;
//   - a run that has ended counts as the claim's own (Deduplicated) if one server tells
//     of it: most of them need not know. One that goes on, or vanished, has to be known
//     to most: that somebody was given a vote is no run;
//   - SlotsDiffer and HeldByOuterRun if one says so; Superseded if most do;
//   - granted if most have;
//   - busy otherwise.
// A grant's slot is 0: there are no others here.
Outcome tally(const Votes& votes);

// Whether no vote that is still to come can change whether most grant the claim.
bool is_certain(const Votes& votes);

// What confirmations come to: confirmed (or broken, if one says so) if most confirm it,
// reclaimed if it takes those to make most that have set it up again; lost as soon as so
// few are left that most cannot confirm it. Unreachable otherwise.
std::variant<Renewal, Failure> tally(const Confirmations& confirmations);
bool is_certain(const Confirmations& confirmations);

// Whether the server says that it has the lease no more.
bool is_missing(const Said<Renewal>& said);

// `relied`: a run has relied on the lease. A server that knew nothing of it then did not
// have it. What answers to a release come to: broken if one says so, as a break reaches
// as many as it can; the loss that one tells of as soon as so few are left that the
// others were not most; released otherwise, if one has, and not ours if none has.
// Unreachable if too few have answered.
std::variant<Release, Failure> tally(const Returns& returns, bool relied);

// "1 of 3 servers answer, and 2 have to: ", and the first reason of those that do not.
// Exhausted if one of them is, and rejected if all that do not answer are.
Failure too_few(std::size_t answered, std::size_t servers,
                const std::vector<Failure>& failures);

}  // namespace dlock::redis_quorum
