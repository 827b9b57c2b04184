// Decides what a claimant does after each round of votes. It uses no clock, no random
// numbers and no servers itself; the caller passes these in.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "store/redis/script_calls.hpp"
#include "store/redis_quorum/tally.hpp"
#include "util/clock.hpp"

namespace dlock::redis_quorum {

using redis::Ballot;

// One server of several may be wrong, or lie. These therefore become failed votes
// (misconfigured):
//   - a grant with an implausible fence (greatest_plausible_fence());
//   - a run that has ended and would deduplicate the claim, other slots, and an outer run
//     that holds the lock, unless a majority reports them.
Votes screened(Votes votes, WallTime now);

// What the user should know about the servers whose votes failed though they were
// reached: one message for each that is misconfigured, refuses the login, or was struck
// out.
std::vector<std::string> complaints_about(const Votes& votes);

// What to do next.
struct CandidacyStep {
  enum class Then {
    done,      // the result is `said`; a Failure is thrown
    ask,       // another round, at once
    give_back  // release the votes, and ask again after `pause`
  };
  Then then = Then::done;
  std::variant<Answer, Failure> said =
      Failure::unreachable("the servers did not reach a decision in time");
  bool undoes = false;  // with `done`: first release all votes and places in the queue
  std::size_t servers = 0;  // with a grant: how many servers hold it
  milliseconds pause{0};
};

class Candidacy {
 public:
  // A random number from 0 to the given number.
  using RandomUpTo = std::function<std::uint64_t(std::uint64_t)>;

  // `supersedes`: Claim::supersedes. All servers must agree which of these claims is the
  // newest, so each sends the time of its clock.
  Candidacy(Fence floor, bool supersedes, RandomUpTo random_up_to)
      : floor_(floor), supersedes_(supersedes), random_up_to_(std::move(random_up_to)) {}

  // Starts a new request.
  void begin() { raised_ = 0; }

  // The ballot for the next round. `wall`: the time by our clock. Its fence is greater
  // than those of released votes, so that a late release cannot hit a newer vote.
  Ballot ballot(WallTime wall);

  // What counts of the votes; see redis_quorum::screened().
  Votes screened(const Votes& votes) const {
    return redis_quorum::screened(votes, wall_);
  }

  // `took`: how long the round took.
  CandidacyStep after(const Votes& all_votes, Queue queue, Clock::time_point now,
                      milliseconds took);

  // The budget ended before the next round: the fence to agree on is out of date when the
  // claim asks again.
  void ran_out_of_time() { is_fence_set_ = false; }

  // The ballot that sets up the lease again on a server that has lost it. Use it only
  // while a majority is known to have the lease.
  Ballot repair() const { return {ballot_.fence, true, true, 0}; }

  // The grant with this fence was released: the next request uses a greater fence.
  void gave_back(Fence fence);

  // Until when too few votes are kept before they are released and the claim asks again;
  // max() while no other claimant competes.
  Clock::time_point gives_way_at() const { return gives_way_at_; }

  // The claim has left all queues and has no votes: the next request is for a new grant.
  void forget();

 private:
  CandidacyStep granted(const Held& held);
  CandidacyStep raise(Fence fence, Queue queue);
  CandidacyStep refuse_or_retry(const Votes& votes, Busy busy);
  CandidacyStep give_back(const Votes& votes);
  CandidacyStep wait_in_queue(const Votes& votes, const Split* split, Busy busy,
                              Clock::time_point now, milliseconds took);
  milliseconds patience(bool is_next, milliseconds took);

  Fence floor_;
  bool supersedes_;
  WallTime wall_{};  // of the last ballot
  RandomUpTo random_up_to_;
  Ballot ballot_;
  // The fence is agreed on, or is being agreed on: it does not follow the clock.
  bool is_fence_set_ = false;
  // An earlier request got too few votes, and servers may have granted votes whose
  // replies did not arrive.
  bool has_asked_before_ = false;
  int raised_ = 0;
  int gave_way_ = 0;
  Clock::time_point gives_way_at_ = Clock::time_point::max();
};

}  // namespace dlock::redis_quorum
