// The granting rules: who is granted the lock, who is promised it, who is woken.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "rules/queue.hpp"
#include "rules/runs.hpp"
#include "store/local/state_bytes.hpp"
#include "tests/run_end.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::rules {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using Sessions = std::vector<Session>;

class Rules : public ::testing::Test, protected LockByHand {
 protected:
  // What has to come of an ask or a release for the rest of a test to mean something;
  // anything else fails it by an exception.
  Grant granted(const Claim& claim) { return std::get<Grant>(ask(claim)); }
  Busy queued(const Claim& claim) { return std::get<Busy>(ask(claim, Queue::join)); }
  void released(Session who, const std::optional<RunEnd>& end = std::nullopt) {
    if (release(who, end) != Release::released) throw std::logic_error("not released");
  }

  bool is_busy(const Claim& claim) { return std::holds_alternative<Busy>(ask(claim)); }
  bool is_granted(const Claim& claim) {
    return std::holds_alternative<Grant>(ask(claim));
  }
  bool is_held_above(const Claim& claim, Queue queue = Queue::stay_out) {
    return std::holds_alternative<HeldByOuterRun>(ask(claim, queue));
  }

  void die(Session who) { lives.dead.insert(who); }

  void note_command_of(Session who) {
    note_command(state, token_of(who), {4711, now.boot, now.boot});
  }

  Holder& holder(Session who) {
    for (auto& holder : state.holders) {
      if (holder.party.session == who) return holder;
    }
    throw std::logic_error("no such holder");
  }
  Waiter& waiter(Session who) {
    for (auto& waiter : state.waiters) {
      if (waiter.party.session == who) return waiter;
    }
    throw std::logic_error("no such waiter");
  }
  Sessions waiters() const {
    Sessions all;
    for (const auto& waiter : state.waiters) all.push_back(waiter.party.session);
    return all;
  }
  Sessions promised() const {
    Sessions all;
    for (const auto& waiter : state.waiters) {
      if (waiter.promised_until) all.push_back(waiter.party.session);
    }
    return all;
  }
};

// A free lock, a held lock

TEST_F(Rules, a_free_lock_is_granted) { EXPECT_TRUE(is_granted(exclusive(1))); }

TEST_F(Rules, a_held_lock_is_busy_for_another) {
  granted(exclusive(1));

  EXPECT_TRUE(is_busy(exclusive(2)));
}

TEST_F(Rules, busy_says_who_holds_the_lock) {
  const auto fence = granted(exclusive(1)).fence;

  const auto busy = std::get<Busy>(ask(exclusive(2)));

  ASSERT_EQ(busy.holders.size(), 1u);
  EXPECT_EQ(busy.holders[0].fence, fence);
}

TEST_F(Rules, the_token_that_holds_is_granted_the_same_fence_again) {
  const auto first = granted(exclusive(1));
  pass(seconds(10));

  const auto second = granted(exclusive(1));

  EXPECT_EQ(second.fence, first.fence);
}

TEST_F(Rules, the_token_that_holds_is_granted_the_same_slot_again) {
  granted(slot(1, 3));
  const auto first = granted(slot(2, 3));
  released(1);

  const auto second = granted(slot(2, 3));

  EXPECT_EQ(second.slot, first.slot);
}

TEST_F(Rules, asking_for_what_is_held_already_changes_nothing) {
  granted(exclusive(1));
  queued(exclusive(2));
  const auto before = local::encoded(state);
  pass(seconds(10));

  granted(exclusive(1));

  EXPECT_EQ(local::encoded(state), before);
}

TEST_F(Rules, a_claim_that_is_refused_a_place_changes_nothing) {
  granted(exclusive(1));
  const auto before = local::encoded(state);

  ask(exclusive(2), Queue::stay_out);

  EXPECT_EQ(local::encoded(state), before);
}

TEST_F(Rules, a_grant_is_recorded_with_label_command_and_moment) {
  auto claim = exclusive(1);
  claim.label = "nightly";

  granted(claim);

  const auto& record = holder(1);
  EXPECT_EQ(record.label, "nightly");
  EXPECT_EQ(record.argv, claim.command);
  EXPECT_EQ(record.since, now.wall);
  EXPECT_EQ(record.granted_at, now.boot);
}

TEST_F(Rules, a_grant_of_a_kernel_kept_lease_has_no_deadline) {
  EXPECT_EQ(granted(exclusive(1)).deadline, Clock::time_point::max());
}

// Fences

TEST_F(Rules, a_fence_is_the_wall_clock_in_microseconds) {
  now.wall = WallTime(1'234'567'890);

  EXPECT_EQ(granted(exclusive(1)).fence.number, 1'234'567'890u);
}

TEST_F(Rules, a_fence_is_one_more_than_the_last_where_the_wall_clock_stands) {
  const auto first = granted(exclusive(1)).fence;
  released(1);

  const auto second = granted(exclusive(2)).fence;

  EXPECT_EQ(second.number, first.number + 1);
}

TEST_F(Rules, a_fence_is_one_more_than_the_last_where_the_wall_clock_stepped_back) {
  const auto first = granted(exclusive(1)).fence;
  released(1);
  now.wall -= hours(24);

  const auto second = granted(exclusive(2)).fence;

  EXPECT_EQ(second.number, first.number + 1);
}

TEST_F(Rules, a_fence_follows_the_wall_clock_where_it_has_gone_on) {
  granted(exclusive(1));
  released(1);
  pass(hours(1));

  const auto second = granted(exclusive(2)).fence;

  EXPECT_EQ(second.number, static_cast<std::uint64_t>(now.wall.count()));
}

TEST_F(Rules, a_wall_clock_before_1970_still_makes_fences_grow) {
  now.wall = WallTime(-5);
  state.last_fence.number = 7;

  EXPECT_EQ(granted(exclusive(1)).fence.number, 8u);
}

TEST_F(Rules, holders_of_slots_have_different_fences) {
  const auto first = granted(slot(1, 2)).fence;
  const auto second = granted(slot(2, 2)).fence;

  EXPECT_LT(first, second);
}

// The queue

TEST_F(Rules, a_claim_that_stays_out_has_no_place) {
  granted(exclusive(1));

  const auto busy = std::get<Busy>(ask(exclusive(2), Queue::stay_out));

  EXPECT_EQ(busy.place, 0u);
  EXPECT_TRUE(state.waiters.empty());
}

TEST_F(Rules, a_claim_that_joins_has_the_last_place) {
  granted(exclusive(1));
  queued(exclusive(2));

  const auto busy = queued(exclusive(3));

  EXPECT_EQ(busy.place, 2u);
  EXPECT_EQ(busy.queued, 2u);
}

TEST_F(Rules, a_claim_that_asks_again_keeps_its_place) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));

  const auto busy = queued(exclusive(2));

  EXPECT_EQ(busy.place, 1u);
  EXPECT_EQ(waiters(), (Sessions{2, 3}));
}

TEST_F(Rules, a_claim_that_joins_a_free_lock_is_granted_it) {
  EXPECT_TRUE(std::holds_alternative<Grant>(ask(exclusive(1), Queue::join)));
}

TEST_F(Rules, a_release_promises_the_lock_to_the_first_in_line) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));

  released(1);

  EXPECT_EQ(promised(), (Sessions{2}));
}

TEST_F(Rules, a_release_wakes_the_first_in_line_and_nobody_else) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));

  released(1);

  EXPECT_EQ(then.wake, (Sessions{2}));
}

TEST_F(Rules, a_release_with_nobody_in_line_wakes_nobody) {
  granted(exclusive(1));

  released(1);

  EXPECT_TRUE(then.wake.empty());
}

TEST_F(Rules, a_promise_is_confirmed_by_asking) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);

  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(Rules, a_confirmed_promise_leaves_the_queue) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);

  granted(exclusive(2));

  EXPECT_TRUE(state.waiters.empty());
}

TEST_F(Rules, confirming_a_promise_wakes_nobody_else) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);

  granted(exclusive(2));

  EXPECT_TRUE(then.wake.empty());
}

TEST_F(Rules, a_lock_passes_through_the_queue_in_the_order_of_arrival) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u, 5u}) queued(exclusive(who));

  Sessions order;
  for (Session holds = 1; !state.waiters.empty(); holds = order.back()) {
    released(holds);
    order.push_back(then.wake.at(0));
    granted(exclusive(order.back()));
  }

  EXPECT_EQ(order, (Sessions{2, 3, 4, 5}));
}

TEST_F(Rules, a_newcomer_does_not_take_what_is_promised) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);

  EXPECT_TRUE(is_busy(exclusive(3)));
}

TEST_F(Rules, a_waiter_does_not_take_what_is_promised_to_the_one_before_it) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);

  EXPECT_TRUE(is_busy(exclusive(3)));
}

TEST_F(Rules, a_newcomer_does_not_overtake_a_waiter) {
  granted(shared(1));
  queued(exclusive(2));

  // It would fit, were it not for the one in line.
  EXPECT_TRUE(is_busy(shared(3)));
}

// Promises that are not kept

TEST_F(Rules, a_promise_keeps_others_out_for_3_seconds) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  pass(seconds(3) - nanoseconds(1));

  EXPECT_TRUE(is_busy(exclusive(3)));
}

TEST_F(Rules, after_3_seconds_a_promise_passes_to_the_next_in_line) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  pass(seconds(3));

  EXPECT_TRUE(is_granted(exclusive(3)));
}

TEST_F(Rules, a_promise_that_lapsed_is_found_by_whoever_asks) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  pass(seconds(3));

  ask(exclusive(4));

  EXPECT_EQ(promised(), (Sessions{3}));
  EXPECT_EQ(then.wake, (Sessions{3}));
}

TEST_F(Rules, a_promise_can_be_confirmed_until_it_lapses) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  pass(seconds(3) - nanoseconds(1));

  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(Rules, a_waiter_that_comes_late_is_granted_the_lock_if_it_is_still_free) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  pass(seconds(4));

  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(Rules, a_waiter_that_comes_late_still_goes_before_those_behind_it) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  pass(seconds(4));

  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(Rules, a_waiter_that_was_passed_over_keeps_its_place_once_it_asks_again) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  released(1);
  pass(seconds(3));
  granted(exclusive(3));

  const auto busy = queued(exclusive(2));
  released(3);

  EXPECT_EQ(busy.place, 1u);
  EXPECT_EQ(promised(), (Sessions{2}));
}

TEST_F(Rules, a_waiter_that_was_passed_over_gets_no_promise_until_it_asks_again) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  released(1);
  pass(seconds(3));
  granted(exclusive(3));

  released(3);

  EXPECT_EQ(promised(), (Sessions{4}));
}

TEST_F(Rules, a_newcomer_is_granted_what_all_waiters_let_pass) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  pass(seconds(3));

  EXPECT_TRUE(is_granted(exclusive(3)));
}

TEST_F(Rules, a_promise_further_off_than_3_seconds_is_of_another_clock_and_none) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  waiter(2).promised_until = now.boot + seconds(3) + nanoseconds(1);

  EXPECT_TRUE(is_granted(exclusive(3)));
}

TEST_F(Rules, who_comes_after_a_promise_that_lapsed_has_half_a_second) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  released(1);
  pass(seconds(3));
  EXPECT_TRUE(is_busy(exclusive(4)));

  pass(milliseconds(500) - nanoseconds(1));
  EXPECT_TRUE(is_busy(exclusive(4)));
  pass(nanoseconds(1));
  EXPECT_TRUE(is_granted(exclusive(4)));
}

TEST_F(Rules, a_waiter_that_was_passed_over_long_ago_does_not_hurry_the_others) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  released(1);
  pass(seconds(3));
  granted(exclusive(3));

  released(3);

  EXPECT_EQ(waiter(4).promised_until, now.boot + seconds(3));
}

// Waiters that are seen to be stopped

TEST_F(Rules, stopped_waiters_are_passed_over_at_once) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u, 5u}) queued(exclusive(who));
  lives.stopped = {2, 3};

  released(1);

  EXPECT_EQ(promised(), (Sessions{4}));
  EXPECT_EQ(waiter(4).promised_until, now.boot + seconds(3));
}

TEST_F(Rules, a_stopped_waiter_is_woken_for_when_it_goes_on) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  lives.stopped = {2};

  released(1);

  EXPECT_EQ(then.wake, (Sessions{2, 3}));
}

TEST_F(Rules, a_stopped_waiter_has_its_place_again_once_it_goes_on) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  lives.stopped = {2};
  released(1);
  granted(exclusive(3));
  lives.stopped = {};

  EXPECT_EQ(queued(exclusive(2)).place, 1u);
  released(3);

  EXPECT_EQ(promised(), (Sessions{2}));
}

TEST_F(Rules, a_stopped_waiter_with_nobody_behind_it_is_promised_the_lock) {
  granted(exclusive(1));
  queued(exclusive(2));
  lives.stopped = {2};

  released(1);

  EXPECT_EQ(promised(), (Sessions{2}));
}

TEST_F(Rules, a_stopped_waiter_keeps_its_place_until_the_lock_is_free) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  lives.stopped = {2};
  ask(exclusive(3));
  lives.stopped = {};

  released(1);

  EXPECT_EQ(promised(), (Sessions{2}));
}

TEST_F(Rules, the_lock_of_a_dead_holder_goes_past_stopped_waiters_to_who_finds_out) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  lives.stopped = {2, 3};
  die(1);

  EXPECT_TRUE(is_granted(exclusive(4)));
}

// Death

TEST_F(Rules, a_dead_waiter_that_was_promised_the_lock_is_passed_over_at_once) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  die(2);

  EXPECT_TRUE(is_granted(exclusive(3)));
}

TEST_F(Rules, a_dead_waiter_that_was_promised_the_lock_is_removed) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  die(2);

  ask(exclusive(3));

  EXPECT_EQ(then.dead, (Sessions{2}));
  EXPECT_TRUE(waiters().empty());
}

TEST_F(Rules, a_newcomer_is_granted_what_was_promised_to_the_dead) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  die(2);

  EXPECT_TRUE(is_granted(exclusive(3)));
}

TEST_F(Rules, dead_waiters_in_front_are_passed_over_by_a_release) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  die(2);
  die(3);

  released(1);

  EXPECT_EQ(promised(), (Sessions{4}));
  EXPECT_EQ(then.dead, (Sessions{2, 3}));
}

TEST_F(Rules, a_dead_waiter_in_the_middle_is_passed_over_when_its_turn_comes) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  die(3);
  released(1);
  granted(exclusive(2));

  released(2);

  EXPECT_EQ(promised(), (Sessions{4}));
}

TEST_F(Rules, a_dead_predecessor_is_removed_when_the_one_behind_it_asks) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  die(3);

  const auto busy = queued(exclusive(4));

  EXPECT_EQ(then.dead, (Sessions{3}));
  EXPECT_EQ(busy.place, 2u);
}

TEST_F(Rules, all_dead_predecessors_in_a_row_are_removed) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  die(2);
  die(3);

  const auto busy = queued(exclusive(4));

  EXPECT_EQ(busy.place, 1u);
  EXPECT_EQ(waiters(), (Sessions{4}));
}

TEST_F(Rules, a_dead_waiter_that_was_passed_over_is_nobody) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  pass(seconds(3));
  granted(exclusive(3));
  die(2);
  released(3);

  ask(exclusive(4));

  EXPECT_EQ(waiters(), Sessions{});
}

TEST_F(Rules, a_dead_writer_in_line_does_not_keep_a_reader_out) {
  granted(shared(1));
  queued(exclusive(2));
  die(2);

  EXPECT_TRUE(is_granted(shared(3)));
}

TEST_F(Rules, the_lock_of_a_dead_holder_is_free) {
  granted(exclusive(1));
  die(1);

  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(Rules, the_lock_of_a_dead_holder_goes_to_the_first_in_line) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  die(1);

  ask(exclusive(3));

  EXPECT_EQ(promised(), (Sessions{2}));
  EXPECT_EQ(then.wake, (Sessions{2}));
}

TEST_F(Rules, the_first_in_line_that_asks_itself_need_not_be_woken) {
  granted(exclusive(1));
  queued(exclusive(2));
  die(1);

  granted(exclusive(2));

  EXPECT_EQ(then.wake, Sessions{});
}

TEST_F(Rules, the_lock_of_a_dead_holder_is_promised_by_any_release) {
  granted(exclusive(1));
  queued(exclusive(2));
  die(1);

  release(9);

  EXPECT_EQ(promised(), (Sessions{2}));
}

TEST_F(Rules, the_socket_that_a_dead_holder_may_have_left_is_to_be_removed) {
  granted(exclusive(1));
  die(1);

  ask(exclusive(2));

  EXPECT_EQ(then.dead, (Sessions{1}));
}

TEST_F(Rules, a_detached_lease_that_ended_has_left_no_socket) {
  granted(detached(1, seconds(30)));
  pass(seconds(30));

  ask(exclusive(2));

  EXPECT_TRUE(then.dead.empty());
}

TEST_F(Rules, a_dead_holder_whose_command_was_noted_is_a_vanished_run) {
  const auto fence = granted(exclusive(1)).fence;
  note_command_of(1);
  die(1);

  ask(exclusive(2));

  ASSERT_EQ(then.vanished.size(), 1u);
  EXPECT_EQ(then.vanished[0].fence, fence);
  EXPECT_EQ(then.vanished[0].outcome, "vanished");
  EXPECT_FALSE(then.vanished[0].ended);
}

TEST_F(Rules, a_vanished_run_is_the_last_run) {
  const auto fence = granted(exclusive(1)).fence;
  note_command_of(1);
  die(1);

  ask(exclusive(2));

  ASSERT_TRUE(state.last_run);
  EXPECT_EQ(state.last_run->fence, fence);
}

TEST_F(Rules, a_dead_holder_that_ran_nothing_is_no_run) {
  granted(exclusive(1));
  die(1);

  ask(exclusive(2));

  EXPECT_TRUE(then.vanished.empty());
  EXPECT_FALSE(state.last_run);
}

// Slots

TEST_F(Rules, as_many_hold_at_a_time_as_there_are_slots) {
  granted(slot(1, 3));
  granted(slot(2, 3));

  EXPECT_TRUE(is_granted(slot(3, 3)));
}

TEST_F(Rules, one_more_than_there_are_slots_is_busy) {
  for (const Session who : {1u, 2u, 3u}) granted(slot(who, 3));

  EXPECT_TRUE(is_busy(slot(4, 3)));
}

TEST_F(Rules, holders_have_different_slots) {
  std::vector<unsigned> slots;
  for (const Session who : {1u, 2u, 3u}) slots.push_back(granted(slot(who, 3)).slot);

  EXPECT_EQ(slots, (std::vector<unsigned>{0, 1, 2}));
}

TEST_F(Rules, the_lowest_free_slot_is_granted) {
  for (const Session who : {1u, 2u, 3u}) granted(slot(who, 3));
  released(2);

  EXPECT_EQ(granted(slot(4, 3)).slot, 1u);
}

TEST_F(Rules, every_slot_that_becomes_free_is_promised) {
  granted(slot(1, 2));
  granted(slot(2, 2));
  queued(slot(3, 2));
  queued(slot(4, 2));
  released(1);

  released(2);

  EXPECT_EQ(promised(), (Sessions{3, 4}));
}

TEST_F(Rules, no_more_slots_are_promised_than_are_free) {
  granted(slot(1, 2));
  granted(slot(2, 2));
  queued(slot(3, 2));
  queued(slot(4, 2));

  released(1);

  EXPECT_EQ(promised(), (Sessions{3}));
}

TEST_F(Rules, a_slot_that_nobody_was_promised_is_granted_to_a_newcomer) {
  granted(slot(1, 2));
  granted(slot(2, 2));
  queued(slot(3, 2));
  released(1);
  released(2);

  EXPECT_TRUE(is_granted(slot(4, 2)));
}

TEST_F(Rules, more_slots_than_are_in_use_are_refused) {
  granted(slot(1, 2));

  EXPECT_EQ(std::get<SlotsDiffer>(ask(slot(2, 3))).in_use, 2u);
}

TEST_F(Rules, fewer_slots_than_are_in_use_are_refused) {
  granted(slot(1, 2));

  EXPECT_EQ(std::get<SlotsDiffer>(ask(exclusive(2))).in_use, 2u);
}

TEST_F(Rules, another_number_of_slots_is_refused_while_somebody_waits) {
  granted(slot(1, 2));
  granted(slot(2, 2));
  queued(slot(3, 2));
  released(1);
  released(2);

  EXPECT_TRUE(std::holds_alternative<SlotsDiffer>(ask(slot(4, 3))));
}

TEST_F(Rules, a_refused_number_of_slots_takes_no_place) {
  granted(slot(1, 2));

  ask(slot(2, 3), Queue::join);

  EXPECT_TRUE(state.waiters.empty());
}

TEST_F(Rules, another_number_of_slots_is_accepted_when_nobody_is_there) {
  granted(slot(1, 2));
  released(1);

  EXPECT_TRUE(is_granted(slot(2, 3)));
}

TEST_F(Rules, another_number_of_slots_is_accepted_when_only_the_dead_are_there) {
  granted(slot(1, 2));
  granted(slot(2, 2));
  queued(slot(3, 2));
  for (const Session who : {1u, 2u, 3u}) die(who);

  EXPECT_TRUE(is_granted(slot(4, 3)));
}

TEST_F(Rules, another_number_of_slots_is_accepted_when_only_a_dead_one_was_passed_over) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  pass(seconds(3));
  granted(exclusive(3));
  die(2);
  released(3);

  EXPECT_TRUE(is_granted(slot(4, 3)));
}

TEST_F(Rules, the_head_of_the_queue_learns_of_a_new_holder_of_a_slot) {
  granted(slot(1, 2));
  granted(slot(2, 2));
  queued(slot(3, 2));
  queued(slot(4, 2));
  released(1);

  granted(slot(3, 2));

  EXPECT_EQ(then.wake, (Sessions{4}));
}

// Shared

TEST_F(Rules, readers_hold_together) {
  granted(shared(1));

  EXPECT_TRUE(is_granted(shared(2)));
}

TEST_F(Rules, a_reader_keeps_writers_out) {
  granted(shared(1));

  EXPECT_TRUE(is_busy(exclusive(2)));
}

TEST_F(Rules, a_writer_keeps_readers_out) {
  granted(exclusive(1));

  EXPECT_TRUE(is_busy(shared(2)));
}

TEST_F(Rules, a_waiting_writer_stops_readers_that_come_later) {
  granted(shared(1));
  queued(exclusive(2));

  queued(shared(3));

  EXPECT_EQ(waiters(), (Sessions{2, 3}));
}

TEST_F(Rules, a_writer_is_promised_the_lock_when_the_last_reader_is_gone) {
  granted(shared(1));
  granted(shared(2));
  queued(exclusive(3));
  released(1);
  const auto promised_early = promised();

  released(2);

  EXPECT_EQ(promised_early, Sessions{});
  EXPECT_EQ(promised(), (Sessions{3}));
}

TEST_F(Rules, readers_in_line_are_promised_the_lock_together) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(shared(who));

  released(1);

  EXPECT_EQ(then.wake, (Sessions{2, 3, 4}));
}

TEST_F(Rules, readers_behind_a_writer_are_not_promised_the_lock_with_those_before_it) {
  granted(exclusive(1));
  queued(shared(2));
  queued(exclusive(3));
  queued(shared(4));

  released(1);

  EXPECT_EQ(promised(), (Sessions{2}));
}

TEST_F(Rules, a_promise_to_a_reader_keeps_writers_out) {
  granted(exclusive(1));
  queued(shared(2));
  released(1);

  EXPECT_TRUE(is_busy(exclusive(3)));
}

TEST_F(Rules, a_reader_joins_those_that_were_promised_the_lock) {
  granted(exclusive(1));
  queued(shared(2));
  released(1);

  EXPECT_TRUE(is_granted(shared(3)));
}

TEST_F(Rules, readers_have_no_slots_of_their_own) {
  granted(shared(1));

  EXPECT_EQ(granted(shared(2)).slot, 0u);
}

// Inside an outer run

TEST_F(Rules, exclusive_inside_exclusive_would_wait_without_end) {
  const auto outer = granted(exclusive(1)).fence;

  EXPECT_TRUE(is_held_above(inside(exclusive(2), outer)));
}

TEST_F(Rules, held_above_says_which_grant_is_in_the_way) {
  const auto outer = granted(exclusive(1)).fence;

  EXPECT_EQ(std::get<HeldByOuterRun>(ask(inside(exclusive(2), outer))).fence, outer);
}

TEST_F(Rules, shared_inside_exclusive_would_wait_without_end) {
  const auto outer = granted(exclusive(1)).fence;

  EXPECT_TRUE(is_held_above(inside(shared(2), outer)));
}

TEST_F(Rules, exclusive_inside_shared_would_wait_without_end) {
  const auto outer = granted(shared(1)).fence;

  EXPECT_TRUE(is_held_above(inside(exclusive(2), outer)));
}

TEST_F(Rules, exclusive_inside_shared_would_wait_without_end_for_other_readers_too) {
  const auto outer = granted(shared(1)).fence;
  granted(shared(2));

  EXPECT_TRUE(is_held_above(inside(exclusive(3), outer)));
}

TEST_F(Rules, one_that_would_wait_without_end_is_not_queued) {
  const auto outer = granted(exclusive(1)).fence;

  ask(inside(exclusive(2), outer), Queue::join);

  EXPECT_TRUE(state.waiters.empty());
}

TEST_F(Rules, shared_inside_shared_is_granted) {
  const auto outer = granted(shared(1)).fence;

  EXPECT_TRUE(is_granted(inside(shared(2), outer)));
}

TEST_F(Rules, shared_inside_shared_goes_past_a_writer_that_waits_for_the_outer_run) {
  const auto outer = granted(shared(1)).fence;
  queued(exclusive(2));

  EXPECT_TRUE(is_granted(inside(shared(3), outer)));
}

TEST_F(Rules, a_writer_learns_of_a_reader_that_went_past_it) {
  const auto outer = granted(shared(1)).fence;
  queued(exclusive(2));

  granted(inside(shared(3), outer));

  EXPECT_EQ(then.wake, (Sessions{2}));
}

TEST_F(Rules, a_further_slot_is_granted_to_an_inner_run) {
  const auto outer = granted(slot(1, 2)).fence;

  EXPECT_TRUE(is_granted(inside(slot(2, 2), outer)));
}

TEST_F(Rules, an_inner_run_would_wait_without_end_if_all_slots_are_held_above_it) {
  const auto first = granted(slot(1, 2)).fence;
  const auto second = granted(inside(slot(2, 2), first)).fence;

  EXPECT_TRUE(is_held_above(inside(inside(slot(3, 2), first), second)));
}

TEST_F(Rules, an_inner_run_waits_for_a_slot_of_somebody_else) {
  const auto outer = granted(slot(1, 2)).fence;
  granted(slot(2, 2));

  EXPECT_FALSE(is_held_above(inside(slot(3, 2), outer), Queue::join));
  EXPECT_EQ(waiters(), (Sessions{3}));
}

TEST_F(Rules, an_inner_run_waits_for_a_slot_that_was_promised_to_somebody_else) {
  const auto outer = granted(slot(1, 2)).fence;
  granted(slot(2, 2));
  queued(slot(3, 2));
  released(2);

  EXPECT_FALSE(is_held_above(inside(slot(4, 2), outer), Queue::join));
  EXPECT_EQ(waiters(), (Sessions{3, 4}));
}

TEST_F(Rules, a_fence_of_an_outer_run_that_is_over_is_in_nobodys_way) {
  const auto outer = granted(exclusive(1)).fence;
  released(1);
  granted(exclusive(2));

  EXPECT_TRUE(is_busy(inside(exclusive(3), outer)));
}

// Release

TEST_F(Rules, a_lock_that_was_released_is_free) {
  granted(exclusive(1));
  released(1);

  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(Rules, one_that_does_not_hold_the_lock_cannot_release_it) {
  granted(exclusive(1));

  EXPECT_EQ(release(2), Release::not_ours);
}

TEST_F(Rules, a_release_by_one_that_does_not_hold_the_lock_changes_nothing) {
  granted(exclusive(1));
  queued(exclusive(2));
  const auto before = local::encoded(state);

  release(3, exit_with(1));

  EXPECT_EQ(local::encoded(state), before);
}

TEST_F(Rules, a_second_release_is_not_ours) {
  granted(exclusive(1));
  released(1);

  EXPECT_EQ(release(1), Release::not_ours);
}

TEST_F(Rules, a_second_release_does_not_take_the_promise_from_the_next) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  const auto before = local::encoded(state);

  release(1, exit_with(1));

  EXPECT_EQ(local::encoded(state), before);
}

TEST_F(Rules, a_waiter_that_releases_leaves_the_queue) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));

  const auto outcome = release(2);

  EXPECT_EQ(outcome, Release::not_ours);
  EXPECT_EQ(waiters(), (Sessions{3}));
}

TEST_F(Rules, a_waiter_that_releases_passes_its_promise_on) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);

  release(2);

  EXPECT_EQ(promised(), (Sessions{3}));
  EXPECT_EQ(then.wake, (Sessions{3}));
}

TEST_F(Rules, a_writer_that_stops_waiting_lets_the_readers_behind_it_in) {
  granted(shared(1));
  queued(exclusive(2));
  queued(shared(3));

  release(2);

  EXPECT_EQ(then.wake, (Sessions{3}));
}

TEST_F(Rules, a_release_records_how_the_run_ended) {
  const auto fence = granted(exclusive(1)).fence;
  const auto started = now.wall;
  pass(milliseconds(1500));

  released(1, exit_with(3));

  ASSERT_TRUE(state.last_run);
  const auto& run = *state.last_run;
  EXPECT_EQ(run.fence, fence);
  EXPECT_EQ(run.started, started);
  EXPECT_EQ(run.ended, now.wall);
  EXPECT_EQ(run.duration, milliseconds(1500));
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_EQ(run.outcome, "ran");
  EXPECT_EQ(run.host, "web1");
}

TEST_F(Rules, a_run_that_ended_by_itself_did_not_vanish) {
  granted(exclusive(1));
  note_command_of(1);

  released(1, exit_with(0));

  EXPECT_TRUE(then.vanished.empty());
}

TEST_F(Rules, a_grant_that_was_given_back_before_anything_ran_is_no_run) {
  granted(exclusive(1));

  released(1);

  EXPECT_FALSE(state.last_run);
}

TEST_F(Rules, a_run_that_ends_is_the_last_even_if_another_one_vanished_meanwhile) {
  const auto fence = granted(slot(1, 2)).fence;
  granted(slot(2, 2));
  note_command_of(2);
  die(2);

  released(1, exit_with(0));

  ASSERT_TRUE(state.last_run);
  EXPECT_EQ(state.last_run->fence, fence);
}

// Leases that end by the clock

TEST_F(Rules, a_detached_lease_holds_until_its_end) {
  granted(exclusive(1));
  holder(1).ends_at = now.boot + seconds(30);
  pass(seconds(30) - nanoseconds(1));

  EXPECT_TRUE(is_busy(exclusive(2)));
}

TEST_F(Rules, a_detached_lease_ends_by_the_clock) {
  granted(exclusive(1));
  holder(1).ends_at = now.boot + seconds(30);
  pass(seconds(30));

  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(Rules, a_detached_lease_needs_no_living_process) {
  granted(exclusive(1));
  holder(1).ends_at = now.boot + seconds(30);
  die(1);

  EXPECT_TRUE(is_busy(exclusive(2)));
}

TEST_F(Rules, a_detached_grant_says_until_when_it_holds) {
  EXPECT_EQ(granted(detached(1, seconds(30))).deadline, now.boot + seconds(30));
}

TEST_F(Rules, a_detached_grant_needs_no_session_from_then_on) {
  granted(detached(1));
  die(0);
  die(1);

  EXPECT_TRUE(is_busy(exclusive(2)));
  EXPECT_EQ(state.holders.at(0).party.session, 0u);
}

TEST_F(Rules, the_session_of_one_who_waits_for_a_detached_lease_counts) {
  granted(exclusive(1));
  ask(detached(2), Queue::join);
  queued(exclusive(3));
  die(2);

  released(1);

  EXPECT_EQ(promised(), Sessions{3});
}

TEST_F(Rules, a_repeated_claim_has_its_full_detached_lease_again) {
  granted(detached(1, seconds(30)));
  pass(seconds(20));

  EXPECT_EQ(granted(detached(1, seconds(30))).deadline, now.boot + seconds(30));
  EXPECT_EQ(state.holders.at(0).ends_at, now.boot + seconds(30));
}

TEST_F(Rules, a_detached_lease_is_no_run_but_is_told_of_as_by_hand) {
  granted(detached(1, seconds(30)));
  pass(seconds(40));

  granted(exclusive(2));

  EXPECT_FALSE(state.last_run);
  ASSERT_EQ(then.vanished.size(), 1u);
  EXPECT_EQ(then.vanished[0].outcome, "by hand");
  EXPECT_EQ(then.vanished[0].duration, seconds(30));
  EXPECT_EQ(then.vanished[0].ended, now.wall - seconds(10));
}

TEST_F(Rules, a_renewal_sets_a_detached_lease_to_so_long_from_now) {
  granted(detached(1, seconds(30)));
  pass(seconds(20));

  EXPECT_EQ(renew(1, seconds(60)), Renewal::confirmed);
  EXPECT_EQ(state.holders.at(0).ends_at, now.boot + seconds(60));
}

TEST_F(Rules, a_detached_lease_that_ended_is_not_renewed_though_nobody_came_since) {
  granted(detached(1, seconds(30)));
  pass(seconds(30));

  EXPECT_EQ(renew(1, seconds(60)), Renewal::gone);
  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(Rules, the_lease_of_another_holder_is_not_renewed) {
  granted(detached(1, seconds(30)));
  const auto before = local::encoded(state);

  EXPECT_EQ(renew(2, seconds(60)), Renewal::taken_over);
  EXPECT_EQ(local::encoded(state), before);
}

TEST_F(Rules, a_lease_that_processes_keep_alive_is_not_made_to_end) {
  granted(exclusive(1));

  EXPECT_EQ(renew(1, seconds(60)), Renewal::confirmed);
  EXPECT_FALSE(state.holders.at(0).ends_at);
}

TEST_F(Rules, a_renewal_that_makes_a_lease_end_sooner_wakes_the_first_in_line) {
  granted(detached(1, seconds(30)));
  queued(exclusive(2));
  queued(exclusive(3));

  renew(1, seconds(10));
  EXPECT_EQ(then.wake, Sessions{2});
  renew(1, seconds(20));
  EXPECT_EQ(then.wake, Sessions{});
}

// The command of a holder

TEST_F(Rules, the_command_of_a_holder_is_noted_with_when_it_started) {
  granted(exclusive(1));

  note_command(
      state, token_of(1),
      {77, Clock::time_point(nanoseconds(5)), Clock::time_point(nanoseconds(9))});

  EXPECT_EQ(holder(1).command, 77);
  EXPECT_EQ(holder(1).command_after, 5);
  EXPECT_EQ(holder(1).command_before, 9);
}

TEST_F(Rules, the_command_of_one_that_does_not_hold_is_not_noted) {
  granted(exclusive(1));
  queued(exclusive(2));
  const auto before = local::encoded(state);

  note_command(state, token_of(2), {77, now.boot, now.boot});

  EXPECT_EQ(local::encoded(state), before);
}

// What a waiter watches

TEST_F(Rules, the_first_in_line_watches_the_holder) {
  granted(exclusive(1));
  queued(exclusive(2));

  const auto seen = watch(2);

  EXPECT_EQ(seen.predecessor, nullptr);
  ASSERT_EQ(seen.holders.size(), 1u);
  EXPECT_EQ(seen.holders[0]->party.session, 1u);
}

TEST_F(Rules, the_first_in_line_watches_every_holder) {
  granted(shared(1));
  granted(shared(2));
  queued(exclusive(3));

  EXPECT_EQ(watch(3).holders.size(), 2u);
}

TEST_F(Rules, the_others_watch_the_one_before_them_alone) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));

  const auto seen = watch(4);

  ASSERT_NE(seen.predecessor, nullptr);
  EXPECT_EQ(seen.predecessor->session, 3u);
  EXPECT_TRUE(seen.holders.empty());
}

TEST_F(Rules, nobody_watches_one_that_was_passed_over) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  released(1);
  pass(seconds(3));
  granted(exclusive(3));

  const auto seen = watch(4);

  EXPECT_EQ(seen.predecessor, nullptr);
  EXPECT_EQ(seen.holders.size(), 1u);
}

TEST_F(Rules, the_first_two_in_line_ask_again_after_a_second) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));

  EXPECT_EQ(watch(2).ask_again, now.boot + seconds(1));
  EXPECT_EQ(watch(3).ask_again, now.boot + seconds(1));
}

TEST_F(Rules, those_behind_the_first_two_ask_again_a_second_later_for_each_in_front) {
  granted(exclusive(1));
  for (Session who = 2; who <= 40; ++who) queued(exclusive(who));

  EXPECT_EQ(watch(4).ask_again, now.boot + seconds(4));
  EXPECT_EQ(watch(5).ask_again, now.boot + seconds(5));
  EXPECT_EQ(watch(20).ask_again, now.boot + seconds(20));
  EXPECT_EQ(watch(40).ask_again, now.boot + seconds(20));
}

TEST_F(Rules, one_that_was_passed_over_does_not_put_those_behind_it_further_back) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u, 5u}) queued(exclusive(who));
  released(1);
  pass(seconds(3));
  granted(exclusive(3));

  EXPECT_EQ(watch(5).ask_again, now.boot + seconds(1));
}

TEST_F(Rules, the_one_behind_a_promise_asks_again_when_it_lapses) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  const auto lapses = now.boot + seconds(3);
  pass(milliseconds(2500));

  EXPECT_EQ(watch(3).ask_again, lapses);
}

TEST_F(Rules, those_further_behind_a_promise_ask_again_soon_after_it_lapses) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u, 5u}) queued(exclusive(who));
  released(1);
  const auto lapses = now.boot + seconds(3);

  EXPECT_EQ(watch(4).ask_again, lapses + milliseconds(10));
  EXPECT_EQ(watch(5).ask_again, lapses + milliseconds(20));
}

TEST_F(Rules, the_first_in_line_asks_again_when_a_detached_lease_ends) {
  granted(exclusive(1));
  queued(exclusive(2));
  holder(1).ends_at = now.boot + milliseconds(300);

  EXPECT_EQ(watch(2).ask_again, now.boot + milliseconds(300));
}

TEST_F(Rules, one_that_does_not_queue_asks_again_at_once) {
  granted(exclusive(1));

  EXPECT_EQ(watch(2).ask_again, now.boot);
}

// What `status` shows

TEST_F(Rules, a_lock_nobody_uses_shows_as_free) {
  EXPECT_EQ(info().free, 1u);
  EXPECT_TRUE(info().holders.empty());
}

TEST_F(Rules, a_held_lock_shows_its_holder) {
  auto claim = exclusive(1);
  claim.label = "nightly";
  const auto fence = granted(claim).fence;
  const auto since = now.wall;
  pass(milliseconds(1234));

  const auto shown = info();

  ASSERT_EQ(shown.holders.size(), 1u);
  const auto& holder = shown.holders[0];
  EXPECT_EQ(holder.fence, fence);
  EXPECT_EQ(holder.host, "web1");
  EXPECT_EQ(holder.pid, 1001);
  EXPECT_EQ(holder.user, "33");
  EXPECT_EQ(holder.command, claim.command);
  EXPECT_EQ(holder.label, "nightly");
  EXPECT_EQ(holder.since, since);
  EXPECT_EQ(holder.held, milliseconds(1234));
  EXPECT_FALSE(holder.expires_in);
  EXPECT_TRUE(holder.attached);
}

TEST_F(Rules, a_detached_lease_shows_what_is_left_of_it) {
  granted(exclusive(1));
  holder(1).ends_at = now.boot + seconds(30);
  pass(seconds(10));

  EXPECT_EQ(info().holders.at(0).expires_in, seconds(20));
}

TEST_F(Rules, a_lock_shows_who_waits_in_order) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));

  const auto shown = info();

  ASSERT_EQ(shown.waiters.size(), 2u);
  EXPECT_EQ(shown.waiters[0].pid, 1002);
  EXPECT_EQ(shown.waiters[1].pid, 1003);
}

TEST_F(Rules, a_waiter_shows_for_how_long_it_waits) {
  granted(exclusive(1));
  queued(exclusive(2));
  const auto since = now.wall;
  pass(seconds(5));

  const auto shown = info().waiters.at(0);

  EXPECT_EQ(shown.waiting, seconds(5));
  EXPECT_EQ(shown.since, since);
}

TEST_F(Rules, the_dead_are_not_shown) {
  granted(exclusive(1));
  queued(exclusive(2));
  die(1);
  die(2);

  const auto shown = info();

  EXPECT_TRUE(shown.holders.empty());
  EXPECT_TRUE(shown.waiters.empty());
  EXPECT_EQ(shown.free, 1u);
}

TEST_F(Rules, a_dead_holder_shows_as_a_vanished_last_run) {
  granted(exclusive(1));
  note_command_of(1);
  die(1);

  const auto shown = info();

  ASSERT_TRUE(shown.last_run);
  EXPECT_EQ(shown.last_run->outcome, "vanished");
}

TEST_F(Rules, a_held_mutex_shows_nothing_free) {
  granted(exclusive(1));

  EXPECT_EQ(info().free, 0u);
}

TEST_F(Rules, a_semaphore_shows_how_many_slots_are_free) {
  granted(slot(1, 3));

  EXPECT_EQ(info().slots, 3u);
  EXPECT_EQ(info().free, 2u);
}

TEST_F(Rules, a_shared_lock_shows_nothing_free) {
  granted(shared(1));

  EXPECT_EQ(info().mode, Mode::shared);
  EXPECT_EQ(info().free, 0u);
}

TEST_F(Rules, the_slots_of_an_earlier_use_are_not_shown) {
  granted(slot(1, 3));
  released(1);

  EXPECT_EQ(info().slots, 1u);
}

// Out of use

TEST_F(Rules, a_lock_is_kept_for_30_days_after_its_last_use) {
  granted(exclusive(1));
  released(1);
  pass(hours(24 * 30));

  EXPECT_FALSE(is_out_of_use(state, now, lives));
}

TEST_F(Rules, a_lock_is_out_of_use_30_days_after_its_last_use) {
  granted(exclusive(1));
  released(1);
  pass(hours(24 * 30) + seconds(1));

  EXPECT_TRUE(is_out_of_use(state, now, lives));
}

TEST_F(Rules, a_lock_whose_holder_and_waiters_died_is_out_of_use_in_the_end) {
  granted(exclusive(1));
  queued(exclusive(2));
  die(1);
  die(2);
  pass(hours(24 * 30) + seconds(1));

  EXPECT_TRUE(is_out_of_use(state, now, lives));
}

TEST_F(Rules, a_lock_that_is_waited_for_is_in_use) {
  granted(exclusive(1));
  queued(exclusive(2));
  die(1);
  pass(hours(24 * 365));

  EXPECT_FALSE(is_out_of_use(state, now, lives));
}

TEST_F(Rules, a_held_lock_is_never_out_of_use) {
  granted(exclusive(1));
  pass(hours(24 * 365));

  EXPECT_FALSE(is_out_of_use(state, now, lives));
}

TEST_F(Rules,
       a_lock_whose_last_detached_lease_ended_is_out_of_use_though_nobody_cleared_it) {
  granted(detached(1, hours(24 * 31)));
  pass(hours(24 * 31) - seconds(1));
  EXPECT_FALSE(is_out_of_use(state, now, lives));
  pass(seconds(1));
  EXPECT_TRUE(is_out_of_use(state, now, lives));
}

TEST_F(Rules, an_awaited_lock_is_never_out_of_use) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  pass(hours(24 * 365));

  EXPECT_FALSE(is_out_of_use(state, now, lives));
}

}  // namespace
}  // namespace dlock::rules
