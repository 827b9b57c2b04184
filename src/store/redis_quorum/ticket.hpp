// What one who wants the lock does after each round of votes. No clock, no chance and no
// server in here: these are what it is told.
#pragma once

#include <functional>
#include <variant>

#include "lock/clock.hpp"
#include "store/redis/ballot.hpp"
#include "store/redis_quorum/tally.hpp"

namespace dlock::redis_quorum {

using redis::Ballot;

// What there is to do next.
struct Step {
  enum class Then {
    done,      // with `said`; a Failure is thrown
    ask,       // another round, at once
    give_back  // the votes there are, and then another round after `pause`
  };
  Then then = Then::done;
  std::variant<Answer, Failure> said =
      Failure(Failure::Kind::unreachable, "the servers did not reach a decision in time");
  bool undoes = false;  // with `done`: gives everything back first, also places in line
  std::size_t servers = 0;  // with a grant: that hold it
  milliseconds pause{0};
};

class Candidacy {
 public:
  // From 0 to the number, at random.
  using Dice = std::function<std::uint64_t(std::uint64_t)>;

  // `wishes_newest`: Claim::supersedes. Of those who say so the newest has to be the same
  // on all servers, so they bring the time of their own clocks along.
  Candidacy(Fence floor, bool wishes_newest, Dice dice)
      : floor_(floor), wishes_newest_(wishes_newest), dice_(std::move(dice)) {}

  // Begins to ask anew, not as a step behind another one.
  void begin() { raised_ = 0; }

  // What to ask with in the next round. `wall`: the time by our clock. A fence is greater
  // than those of the votes that were given back: a server that is told so late must not
  // take that for the newer vote.
  Ballot ballot(WallTime wall);

  // `took`: how long the round did.
  Step after(const Votes& votes, Queue queue, Clock::time_point now, milliseconds took);

  // The time was over before the next round: the fence that was to be agreed upon is old
  // when it is asked anew.
  void ran_out_of_time() { is_fence_set_ = false; }

  // What to set a lease up with again on a server that has lost it. Only while most are
  // known to have it.
  Ballot repair() const { return {ballot_.fence, true, true, 0}; }

  // What was granted with this fence was given back: another request asks for a greater
  // one.
  void has_given_back(Fence fence);

  // Until when votes that are not enough are kept; max() while there is nobody to give
  // way to. Then to be asked again.
  Clock::time_point gives_way_at() const { return gives_way_at_; }

  // It has left all lines, and has no votes any more: what it asks for next is a new
  // grant.
  void forget();

 private:
  Step granted(const Held& held);
  Step raise(Fence fence, Queue queue);
  Step outside(const Votes& votes, Busy busy);
  Step give_back(const Votes& votes);
  Step in_line(const Votes& votes, const Split* split, Busy busy, Clock::time_point now,
               milliseconds took);
  milliseconds patience(bool is_next, milliseconds took);

  Fence floor_;
  bool wishes_newest_;
  Dice dice_;
  Ballot ballot_;
  // The fence is agreed upon, or to be: it does not follow the clock.
  bool is_fence_set_ = false;
  // An earlier question was not enough, and servers may have votes from it that we have
  // not heard of.
  bool has_asked_before_ = false;
  int raised_ = 0;
  int gave_way_ = 0;
  Clock::time_point gives_way_at_ = Clock::time_point::max();
};

}  // namespace dlock::redis_quorum
