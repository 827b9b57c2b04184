// The rules of claims that supersede or replace others, or do not join a long queue, and
// of leases that are broken.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "rules/look.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::rules {
namespace {

Claim superseding(Session who) {
  auto claim = exclusive(who);
  claim.supersedes = true;
  return claim;
}

Claim replacing(Session who) {
  auto claim = exclusive(who);
  claim.replaces = true;
  return claim;
}

Claim behind_less_than(unsigned waiters, Session who) {
  auto claim = exclusive(who);
  claim.max_queue = waiters;
  return claim;
}

class SupersedeRules : public ::testing::Test, protected LockByHand {
 protected:
  std::size_t place_of(const Claim& claim) {
    return std::get<Busy>(ask(claim, Queue::join)).place;
  }
  bool is_granted(const Claim& claim) {
    return std::holds_alternative<Grant>(ask(claim, Queue::join));
  }
  bool is_woken(Session who) const {
    return std::count(then.wake.begin(), then.wake.end(), who) > 0;
  }
};

TEST_F(SupersedeRules, dead_waiters_do_not_count_towards_max_queue) {
  ask(exclusive(1));
  ask(exclusive(2), Queue::join);
  liveness.dead.insert(2);

  EXPECT_GT(place_of(behind_less_than(1, 3)), 0u);
}

TEST_F(SupersedeRules, a_dead_waiter_is_not_counted_as_superseded) {
  ask(exclusive(1));
  ask(superseding(2), Queue::join);
  liveness.dead.insert(2);

  EXPECT_EQ(place_of(superseding(3)), 1u);

  EXPECT_EQ(state.superseded, 0u);
}

TEST_F(SupersedeRules, the_new_first_waiter_is_woken_to_watch_the_holder) {
  ask(exclusive(1));
  ask(superseding(2), Queue::join);
  ask(exclusive(3), Queue::join);

  ask(superseding(4), Queue::join);

  EXPECT_TRUE(is_woken(3));
}

TEST_F(SupersedeRules, a_superseded_waiter_is_forgotten_once_it_is_dead) {
  ask(exclusive(1));
  ask(superseding(2), Queue::join);
  ask(superseding(3), Queue::join);
  liveness.dead.insert(2);

  ask(exclusive(4));

  EXPECT_TRUE(state.answered.empty());
}

TEST_F(SupersedeRules, a_waiter_that_was_passed_over_is_superseded_by_a_grant) {
  ask(exclusive(1));
  ask(superseding(2), Queue::join);
  ask(exclusive(3), Queue::join);
  liveness.stopped.insert(2);
  release(1);
  release(3);
  ASSERT_TRUE(state.waiters.size() == 1 && !state.waiters[0].promised_until);

  EXPECT_TRUE(is_granted(superseding(4)));

  liveness.stopped.clear();
  EXPECT_TRUE(std::holds_alternative<Superseded>(ask(superseding(2), Queue::join)));
}

TEST_F(SupersedeRules,
       a_replacing_waiter_that_is_passed_over_takes_the_lock_from_nobody) {
  ask(exclusive(1));
  ask(replacing(2), Queue::join);
  ask(exclusive(3), Queue::join);
  liveness.stopped.insert(2);
  release(1);

  EXPECT_FALSE(std::get<Grant>(ask(exclusive(3), Queue::join)).broken);
}

TEST_F(SupersedeRules, a_replacing_waiter_that_continues_takes_the_lock_from_its_holder) {
  ask(exclusive(1));
  ask(replacing(2), Queue::join);
  ask(exclusive(3), Queue::join);
  liveness.stopped.insert(2);
  release(1);
  ask(exclusive(3), Queue::join);
  liveness.stopped.clear();

  ask(replacing(2), Queue::join);

  EXPECT_TRUE(state.holders[0].broken);
}

TEST_F(SupersedeRules, a_dead_replacing_waiter_takes_the_lock_from_nobody) {
  ask(exclusive(1));
  ask(exclusive(2), Queue::join);
  ask(replacing(3), Queue::join);
  liveness.dead.insert(3);
  release(1);

  EXPECT_FALSE(std::get<Grant>(ask(exclusive(2), Queue::join)).broken);
}

// Leases that are broken

const Taker breaker{"1000", "web2", false};

class BreakRules : public ::testing::Test, protected LockByHand {
 protected:
  Fence granted(const Claim& claim) { return std::get<Grant>(ask(claim)).fence; }
  std::vector<Holder> break_leases(const std::vector<Fence>& fences,
                                   const Taker& taker = breaker) {
    then = {};
    return rules::break_leases(step(), fences, taker);
  }
};

TEST_F(BreakRules, a_holder_learns_who_was_the_first_to_break_its_lease) {
  const auto fence = granted(exclusive(1));
  break_leases({fence});

  break_leases({fence}, {"0", "web3", false});

  ASSERT_TRUE(state.holders[0].taken_by);
  EXPECT_EQ(*state.holders[0].taken_by, (Taker{"1000", "web2", false}));
}

TEST_F(BreakRules, by_force_a_holder_is_removed_and_its_run_recorded_as_lost) {
  const auto fence = granted(exclusive(1));
  ask(exclusive(2), Queue::join);
  pass(std::chrono::seconds(7));

  break_leases({fence}, {"0", "web3", false, true});

  EXPECT_TRUE(state.holders.empty());
  EXPECT_EQ(then.wake, std::vector<Session>{2});
  ASSERT_EQ(then.vanished.size(), 1u);
  const auto& run = then.vanished[0];
  EXPECT_EQ(run.fence, fence);
  EXPECT_EQ(run.outcome, "lost");
  EXPECT_EQ(run.reason, "broken by force by 0@web3");
  EXPECT_EQ(run.duration, std::chrono::seconds(7));
  EXPECT_FALSE(state.past.last);
}

TEST_F(BreakRules, a_dead_holder_is_removed_and_not_broken) {
  const auto fence = granted(exclusive(1));
  ask(exclusive(2), Queue::join);
  liveness.dead.insert(1);

  EXPECT_TRUE(break_leases({fence}).empty());

  EXPECT_TRUE(state.holders.empty());
  EXPECT_EQ(then.wake, std::vector<Session>{2});
}

}  // namespace
}  // namespace dlock::rules
