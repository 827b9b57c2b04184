// The granting rules when leases are broken.

#include <gtest/gtest.h>

#include <vector>

#include "rules/look.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::rules {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using Sessions = std::vector<Session>;

RunEnd success() {
  RunEnd end;
  end.exit_code = 0;
  end.outcome = "ran";
  return end;
}

const Taker breaker{"1000", "web2", false};

class BreakRules : public ::testing::Test, protected LockByHand {
 protected:
  Fence granted(const Claim& claim) { return std::get<Grant>(ask(claim)).fence; }
  std::vector<Holder> break_leases(const std::vector<Fence>& fences) {
    then = {};
    return rules::break_leases(state, fences, breaker, now, liveness, then);
  }
  bool is_broken(Session who) { return loss_of(state, token_of(who)) == Loss::broken; }

  Fence kept_after_its_run(Session who) {
    auto claim = exclusive(who);
    claim.min_hold = hours(1);
    const auto fence = granted(claim);
    release(who, success());
    return fence;
  }
};

TEST_F(BreakRules, a_living_holder_is_marked_and_keeps_the_lock) {
  const auto fence = granted(exclusive(1));

  const auto found = break_leases({fence});

  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].broken);
  EXPECT_TRUE(is_broken(1));
  EXPECT_EQ(state.holders.size(), 1u);
  EXPECT_TRUE(then.wake.empty());
}

TEST_F(BreakRules, a_holder_learns_who_was_the_first_to_break_its_lease) {
  const auto fence = granted(exclusive(1));
  break_leases({fence});

  rules::break_leases(state, {fence}, {"0", "web3", false}, now, liveness, then);

  ASSERT_TRUE(state.holders[0].taken_by);
  EXPECT_EQ(*state.holders[0].taken_by, (Taker{"1000", "web2", false}));
}

TEST_F(BreakRules, by_force_a_holder_is_removed_and_its_run_recorded_as_lost) {
  const auto fence = granted(exclusive(1));
  ask(exclusive(2), Queue::join);
  then = {};
  now.boot += seconds(7);
  now.wall += seconds(7);

  rules::break_leases(state, {fence}, {"0", "web3", false, true}, now, liveness, then);

  EXPECT_TRUE(state.holders.empty());
  EXPECT_EQ(then.wake, (Sessions{2}));
  ASSERT_EQ(then.vanished.size(), 1u);
  const auto& run = then.vanished[0];
  EXPECT_EQ(run.fence, fence);
  EXPECT_EQ(run.outcome, "lost");
  EXPECT_EQ(run.reason, "broken by force by 0@web3");
  EXPECT_EQ(run.duration, seconds(7));
  EXPECT_FALSE(state.past.last);
}

TEST_F(BreakRules, the_end_of_a_run_whose_lock_was_freed_by_force_keeps_that_reason) {
  const auto fence = granted(exclusive(1));
  const auto holder = state.holders[0];
  rules::break_leases(state, {fence}, {"0", "web3", false, true}, now, liveness, then);
  record_past_run(state, then.vanished.at(0));
  EXPECT_TRUE(forced_by(state, fence));
  RunEnd end;
  end.exit_code = 76;
  end.outcome = "lost";
  end.lost = Loss::unconfirmed;

  record_loss(state, holder, end, now);

  EXPECT_EQ(state.last_run->exit_code, 76);
  EXPECT_EQ(state.last_run->reason, "broken by force by 0@web3");
}

TEST_F(BreakRules, a_holder_with_another_fence_is_not_marked) {
  const auto first = granted(shared(1));
  granted(shared(2));

  break_leases({first});

  EXPECT_TRUE(is_broken(1));
  EXPECT_FALSE(is_broken(2));
}

TEST_F(BreakRules, a_waiter_is_not_marked_when_it_is_granted_the_lock) {
  const auto fence = granted(exclusive(1));
  ask(exclusive(2), Queue::join);
  break_leases({fence});
  release(1);

  granted(exclusive(2));

  EXPECT_FALSE(is_broken(2));
}

TEST_F(BreakRules, a_dead_holder_is_removed_and_not_broken) {
  const auto fence = granted(exclusive(1));
  ask(exclusive(2), Queue::join);
  liveness.dead.insert(1);

  EXPECT_TRUE(break_leases({fence}).empty());

  EXPECT_TRUE(state.holders.empty());
  EXPECT_EQ(then.wake, Sessions{2});
}

TEST_F(BreakRules, a_lock_kept_by_min_hold_is_promised_to_the_next_waiter_at_once) {
  const auto fence = kept_after_its_run(1);
  ask(exclusive(2), Queue::join);

  EXPECT_EQ(break_leases({fence}).size(), 1u);

  EXPECT_TRUE(state.holders.empty());
  EXPECT_EQ(then.wake, Sessions{2});
}

TEST_F(BreakRules, a_broken_holder_releases_the_lock_despite_min_hold) {
  auto claim = exclusive(1);
  claim.min_hold = hours(1);
  const auto fence = granted(claim);
  break_leases({fence});

  release(1, success());

  EXPECT_TRUE(state.holders.empty());
}

TEST_F(BreakRules, the_status_shows_that_a_holder_is_broken) {
  const auto fence = granted(exclusive(1));
  EXPECT_FALSE(info_of(state, {"dlock", "job"}, now, liveness).holders[0].broken);

  break_leases({fence});

  EXPECT_TRUE(info_of(state, {"dlock", "job"}, now, liveness).holders[0].broken);
}

}  // namespace
}  // namespace dlock::rules
