// What is written into the line of a lock, each step as one transaction that is void if
// something else has happened to what it goes by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lock/answers.hpp"
#include "store/etcd/decision.hpp"
#include "store/etcd/requests.hpp"

namespace dlock::etcd {

// What a step is about: which lock, when by the clock of this host, and the lease of what
// outlives the run.
struct Scene {
  LockName lock;
  WallTime now{};
  std::int64_t day_lease = 0;
};

// All of a lock, in one revision.
TxnRequest look_at(const LockName& lock);

// Without what is kept of its runs, which takes longer to send and to read than all else.
TxnRequest glance_at(const LockName& lock);

// The lock as the two results from `first` on tell of it. Throws Failure (unreachable)
// if they are of another kind. Of a glance there is one result, and no runs.
Line line_from(const LockName& lock, const TxnResult& result, std::size_t first = 0);

// Each of the following has the lock as its results if it is void: see line_from().

// To hold it, by a waiter that stands first of all; behind its own two results it has
// the lock as it was left. Only where no more is to be known of the others.
TxnRequest enter_first(const Scene& scene, const Entry& own);

// To hold it as it was decided, where `own` may be in line already (Entry::created).
TxnRequest enter(const Scene& scene, const Line& line, const Claim& claim,
                 const Entry& own, const Decision& decision);

// To take a place in the queue. With the lock as its last two results in any case.
TxnRequest join(const Scene& scene, const Line& line, const Claim& claim,
                const Entry& own, const Decision& decision);

// To take the lock from its holders; `taker` is told to those who can be told. With the
// lock as its last two results in any case.
TxnRequest take_away(const Scene& scene, const std::vector<Entry>& holders,
                     const Taker& taker);

// To set a holder's entry to what it says now.
TxnRequest rewrite(const Scene& scene, const Entry& own);

// To set up a lease again that has vanished.
TxnRequest set_up_again(const Scene& scene, const Line& line, const Entry& own);

// How a lease ends, if `own` is as it was.
struct Ending {
  std::optional<RunEnd> end;  // Claimant::release
  std::int64_t kept_on = 0;   // the lease on which the lock is held on; 0: it is free
};
TxnRequest give_back(const Scene& scene, const Entry& own, const Ending& ending);

// How many keys there are of the runs of the lock, by the answer to give_back().
std::int64_t runs_kept_after(const TxnResult& given_back);

// To record how a run ended whose lease had vanished.
TxnRequest record_lost(const Scene& scene, const Entry& own, const RunEnd& end);

// To forget what is kept under these keys.
TxnRequest forget(const std::vector<std::string>& keys);

// To count a claim that was refused.
TxnRequest count_refused(const Scene& scene);

}  // namespace dlock::etcd
