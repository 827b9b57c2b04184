// Leases and places that the clock of the store ends.

#include <gtest/gtest.h>

#include "rules/keeping.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::rules {
namespace {

using std::chrono::seconds;

constexpr seconds ttl{30};

struct LockByClock : ::testing::Test {
  Answer ask(const Claim& claim, Queue queue = Queue::stay_out) {
    then = {};
    const auto party = party_of(number_of(claim.token));
    const Ask asked{claim, party, queue, place_lasts};
    return rules::ask({state, now, ClockLiveness(now), then}, asked);
  }
  // The holder, as it was granted the lock.
  Holder granted(const Claim& claim) {
    std::get<Grant>(ask(claim));
    return *holder_of(state, claim.token);
  }
  Renewal renew(const Claim& claim, const Holder& granted) {
    then = {};
    return renew_lease({state, now, ClockLiveness(now), then}, claim, granted);
  }
  Release release(const Claim& claim, const Holder& granted, const RunEnd& end) {
    then = {};
    return release_lease({state, now, ClockLiveness(now), then}, claim, &granted, end);
  }
  void pass(nanoseconds time) {
    now.boot += time;
    now.wall += std::chrono::duration_cast<WallTime>(time);
  }
  LockInfo info() const {
    return info_of(state, {"dlock", "job"}, now, ClockLiveness(now));
  }

  static Claim reclaiming(Claim claim) {
    claim.reclaim = true;
    return claim;
  }
  static RunEnd loss() {
    RunEnd end;
    end.outcome = "lost";
    end.lost = Loss::unconfirmed;
    return end;
  }

  State state;
  Moment now{Clock::time_point(std::chrono::hours(1)), seconds(1'700'000'000)};
  Consequences then;
};

TEST_F(LockByClock, a_lease_ends_its_ttl_and_lock_delay_after_its_grant_or_renewal) {
  auto claim = exclusive(1);
  claim.lock_delay = seconds(5);
  const auto lease = granted(claim);
  pass(seconds(34));
  EXPECT_EQ(renew(claim, lease), Renewal::confirmed);

  pass(seconds(34));
  EXPECT_EQ(info().holders.size(), 1u);
  EXPECT_EQ(info().holders.at(0).expires_in, seconds(1));
  pass(seconds(1));
  EXPECT_EQ(info().holders.size(), 0u);
  EXPECT_EQ(renew(claim, lease), Renewal::gone);
}

TEST_F(LockByClock, a_waiter_is_dead_when_it_has_not_asked_for_the_time_of_a_place) {
  auto holder = exclusive(1);
  holder.ttl = seconds(1000);
  granted(holder);
  ask(exclusive(2), Queue::join);
  pass(place_lasts - seconds(1));
  ask(exclusive(2), Queue::join);
  pass(seconds(2));
  EXPECT_EQ(info().waiters.size(), 1u);

  pass(place_lasts);

  EXPECT_EQ(info().waiters.size(), 0u);
}

TEST_F(LockByClock, the_first_waiter_asks_again_when_the_lease_ends) {
  granted(exclusive(1));
  ask(exclusive(2), Queue::join);
  pass(ttl - milliseconds(200));

  const auto watch = waits_for(state, token_of(2), now);

  EXPECT_EQ(watch.ask_again, now.boot + milliseconds(200));
}

TEST_F(LockByClock, a_run_that_did_not_renew_its_lease_is_recorded_as_vanished) {
  const auto fence = granted(exclusive(1)).fence;
  pass(ttl);

  granted(exclusive(2));

  ASSERT_EQ(then.vanished.size(), 1u);
  EXPECT_EQ(then.vanished[0].fence, fence);
}

TEST_F(LockByClock, a_lease_is_taken_over_if_the_lock_was_granted_since) {
  const auto lease = granted(exclusive(1));
  pass(ttl);
  const auto other = granted(exclusive(2));
  EXPECT_EQ(renew(exclusive(1), lease), Renewal::taken_over);

  release(exclusive(2), other, RunEnd());

  EXPECT_EQ(renew(exclusive(1), lease), Renewal::taken_over);
}

TEST_F(LockByClock, a_vanished_lease_is_restored_for_a_claim_that_wants_that) {
  const auto lease = granted(exclusive(1));
  state = {};
  EXPECT_EQ(renew(exclusive(1), lease), Renewal::gone);

  EXPECT_EQ(renew(reclaiming(exclusive(1)), lease), Renewal::reclaimed);

  EXPECT_EQ(info().holders.at(0).fence, lease.fence);
  EXPECT_EQ(state.last_fence, lease.fence);
}

TEST_F(LockByClock, a_lease_that_has_run_out_is_restored_and_its_run_has_not_vanished) {
  const auto lease = granted(exclusive(1));
  pass(ttl);
  tidy({state, now, ClockLiveness(now), then});
  for (const auto& run : then.vanished) record_past_run(state, run);
  ASSERT_EQ(state.runs.size(), 1u);

  EXPECT_EQ(renew(reclaiming(exclusive(1)), lease), Renewal::reclaimed);

  EXPECT_TRUE(state.runs.empty());
  EXPECT_FALSE(state.last_run);
}

TEST_F(LockByClock, a_lease_is_not_restored_after_another_grant) {
  const auto lease = granted(exclusive(1));
  pass(ttl);
  const auto other = granted(exclusive(2));
  release(exclusive(2), other, RunEnd());

  EXPECT_EQ(renew(reclaiming(exclusive(1)), lease), Renewal::taken_over);
}

// A server that took over without the lease, on which another run was granted the lock,
// and the clock of which is behind: the other one's fence is smaller.
TEST_F(LockByClock, a_lease_is_not_restored_after_another_grant_with_a_smaller_fence) {
  const auto lease = granted(exclusive(1));
  state = {};
  pass(-seconds(20));
  const auto other = granted(exclusive(2));
  ASSERT_LT(other.fence, lease.fence);
  release(exclusive(2), other, RunEnd());

  EXPECT_EQ(renew(reclaiming(exclusive(1)), lease), Renewal::taken_over);
}

// Both are the next after the last fence, because both clocks are behind that.
TEST_F(LockByClock, a_lease_is_not_restored_after_another_grant_with_the_same_fence) {
  const auto before = granted(exclusive(3));
  release(exclusive(3), before, RunEnd());
  const auto lacks_it = state;
  pass(-seconds(20));
  const auto lease = granted(exclusive(1));
  state = lacks_it;
  const auto other = granted(exclusive(2));
  ASSERT_EQ(other.fence, lease.fence);
  RunEnd done;
  EXPECT_EQ(release(exclusive(1), lease, done), Release::taken_over);
  release(exclusive(2), other, done);

  EXPECT_EQ(renew(reclaiming(exclusive(1)), lease), Renewal::taken_over);
}

TEST_F(LockByClock, a_lease_is_restored_where_the_last_grant_is_the_one_before_it) {
  const auto before = granted(exclusive(3));
  release(exclusive(3), before, RunEnd());
  const auto lacks_it = state;
  const auto lease = granted(exclusive(1));
  state = lacks_it;

  EXPECT_EQ(renew(reclaiming(exclusive(1)), lease), Renewal::reclaimed);

  EXPECT_EQ(renew(exclusive(1), lease), Renewal::confirmed);
  EXPECT_GT(lease.fence, before.fence);
}

TEST_F(LockByClock, a_lease_is_not_restored_where_an_unknown_grant_is_the_last) {
  const auto older = granted(exclusive(4));
  release(exclusive(4), older, RunEnd());
  const auto lacks_two = state;
  const auto before = granted(exclusive(3));
  release(exclusive(3), before, RunEnd());
  const auto lease = granted(exclusive(1));
  state = lacks_two;

  EXPECT_EQ(renew(reclaiming(exclusive(1)), lease), Renewal::taken_over);
}

TEST_F(LockByClock, a_lease_of_a_claim_that_was_granted_the_lock_again_is_not_restored) {
  const auto lease = granted(exclusive(1));
  pass(ttl);
  const auto other = granted(exclusive(2));
  release(exclusive(2), other, RunEnd());
  granted(exclusive(1));  // by a late request
  pass(ttl);

  EXPECT_EQ(renew(reclaiming(exclusive(1)), lease), Renewal::taken_over);
}

TEST_F(LockByClock,
       leases_that_a_server_lacks_are_restored_in_the_order_of_their_grants) {
  const auto before = granted(slot(3, 2));
  release(slot(3, 2), before, RunEnd());
  const auto lacks_both = state;
  const auto first = granted(slot(1, 2));
  const auto second = granted(slot(2, 2));
  state = lacks_both;
  EXPECT_EQ(renew(reclaiming(slot(2, 2)), second), Renewal::taken_over);

  EXPECT_EQ(renew(reclaiming(slot(1, 2)), first), Renewal::reclaimed);
  EXPECT_EQ(renew(reclaiming(slot(2, 2)), second), Renewal::reclaimed);

  EXPECT_EQ(state.holders.size(), 2u);
}

// The other one's slot is free again, but was used beside both.
TEST_F(LockByClock, a_lease_that_ended_here_is_not_the_one_before_another_lost_one) {
  const auto first = granted(slot(1, 2));
  const auto lacks_one = state;
  const auto second = granted(slot(2, 2));
  state = lacks_one;
  const auto third = granted(slot(3, 2));
  release(slot(3, 2), third, RunEnd());
  pass(ttl);
  EXPECT_EQ(renew(reclaiming(slot(1, 2)), first), Renewal::reclaimed);

  EXPECT_EQ(renew(reclaiming(slot(2, 2)), second), Renewal::taken_over);
}

TEST_F(LockByClock, a_lease_is_not_restored_while_the_lock_is_promised) {
  const auto lease = granted(exclusive(1));
  ask(exclusive(2), Queue::join);
  pass(ttl);
  tidy({state, now, ClockLiveness(now), then});
  ASSERT_TRUE(state.waiters.at(0).promised_until);

  EXPECT_EQ(renew(reclaiming(exclusive(1)), lease), Renewal::taken_over);
}

TEST_F(LockByClock, leases_of_several_slots_are_restored_in_any_order) {
  const auto first = granted(slot(1, 2));
  const auto second = granted(slot(2, 2));
  state = {};

  EXPECT_EQ(renew(reclaiming(slot(2, 2)), second), Renewal::reclaimed);
  EXPECT_EQ(renew(reclaiming(slot(1, 2)), first), Renewal::reclaimed);

  EXPECT_EQ(state.holders.size(), 2u);
}

TEST_F(LockByClock, a_lease_is_not_restored_into_a_slot_that_was_granted_since) {
  const auto first = granted(slot(1, 2));
  const auto second = granted(slot(2, 2));
  state = {};
  EXPECT_EQ(renew(reclaiming(slot(2, 2)), second), Renewal::reclaimed);
  granted(slot(3, 2));

  EXPECT_EQ(renew(reclaiming(slot(1, 2)), first), Renewal::taken_over);
}

TEST_F(LockByClock, after_a_restored_lease_the_next_fence_is_greater) {
  auto lease = granted(exclusive(1));
  lease.fence.number += 1'000'000'000;
  state = {};
  const auto claim = reclaiming(exclusive(1));
  EXPECT_EQ(renew(claim, lease), Renewal::reclaimed);
  release(claim, lease, RunEnd());

  EXPECT_GT(granted(exclusive(2)).fence, lease.fence);
}

// The waiter knows only when the lease would have ended before.
TEST_F(LockByClock, a_detached_lease_that_is_to_end_sooner_wakes_the_first_waiter) {
  auto claim = exclusive(1);
  claim.attached = false;
  granted(claim);
  ask(exclusive(2), Queue::join);
  const auto renew_for = [&](seconds lasts) {
    then = {};
    rules::renew({state, now, ClockLiveness(now), then}, claim.token, lasts);
    return then.wake;
  };
  EXPECT_EQ(renew_for(ttl + seconds(1)), std::vector<Session>{});

  EXPECT_EQ(renew_for(seconds(5)), std::vector<Session>{2});
}

TEST_F(LockByClock, a_lost_run_may_leave_its_lease_until_that_ends) {
  const auto lease = granted(exclusive(1));
  pass(seconds(10));
  auto end = loss();
  end.leaves_lease = true;

  EXPECT_EQ(release(exclusive(1), lease, end), Release::left);

  EXPECT_TRUE(info().holders.at(0).run_ended);
  EXPECT_EQ(info().holders.at(0).expires_in, seconds(20));
  EXPECT_EQ(then.vanished.at(0).outcome, "lost");
  EXPECT_TRUE(std::holds_alternative<Busy>(ask(exclusive(2))));
  pass(seconds(20));
  EXPECT_TRUE(std::holds_alternative<Grant>(ask(exclusive(2))));
}

TEST_F(LockByClock, a_holder_from_which_the_lock_was_taken_by_force_learns_that) {
  const auto lease = granted(exclusive(1));
  const Taker taker{"root", "web2", false, true};
  break_leases({state, now, ClockLiveness(now), then}, {lease.fence}, taker);
  for (const auto& run : then.vanished) record_past_run(state, run);

  EXPECT_EQ(renew(reclaiming(exclusive(1)), lease), Renewal::broken);
  EXPECT_EQ(release(exclusive(1), lease, RunEnd()), Release::broken);
  EXPECT_EQ(taker_from(state, lease), taker);
}

TEST_F(LockByClock, a_clock_that_was_set_back_makes_nothing_last_longer) {
  granted(exclusive(1));
  ask(exclusive(2), Queue::join);
  pass(-std::chrono::hours(1));

  limit_to_lengths(state, now);

  EXPECT_EQ(info().holders.at(0).expires_in, ttl);
  EXPECT_LE(*state.waiters.at(0).lives_until, now.boot + longest_place);
}

TEST_F(LockByClock, a_usual_clock_changes_nothing) {
  granted(exclusive(1));
  ask(exclusive(2), Queue::join);
  const auto before = state;
  pass(seconds(1));

  limit_to_lengths(state, now);

  EXPECT_EQ(state, before);
}

}  // namespace
}  // namespace dlock::rules
