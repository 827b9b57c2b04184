// The granting rules: who is granted the lock, who is promised it, who is woken.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "record/states.hpp"
#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "rules/state.hpp"
#include "rules/watches.hpp"
#include "tests/run_end.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::rules {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using Sessions = std::vector<Session>;

class Rules : public ::testing::Test, protected LockByHand {
 protected:
  // These expect the result that the rest of a test relies on; any other result throws
  // and fails the test.
  Grant granted(const Claim& claim) { return std::get<Grant>(ask(claim)); }
  Busy queued(const Claim& claim) { return std::get<Busy>(ask(claim, Queue::join)); }
  void released(Session who, const std::optional<RunEnd>& end = std::nullopt) {
    if (release(who, end) != Release::released) throw std::logic_error("not released");
  }

  bool is_busy(const Claim& claim) { return std::holds_alternative<Busy>(ask(claim)); }
  bool is_granted(const Claim& claim) {
    return std::holds_alternative<Grant>(ask(claim));
  }

  void die(Session who) { liveness.dead.insert(who); }

  void note_command_of(Session who) {
    record_command(state, token_of(who), {4711, now.boot, now.boot});
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

TEST_F(Rules, a_holder_that_asks_again_changes_nothing) {
  granted(exclusive(1));
  queued(exclusive(2));
  const auto before = record::encoded(state);
  pass(seconds(10));

  granted(exclusive(1));

  EXPECT_EQ(record::encoded(state), before);
}

TEST_F(Rules, a_busy_claim_that_stays_out_of_the_queue_changes_nothing) {
  granted(exclusive(1));
  const auto before = record::encoded(state);

  ask(exclusive(2), Queue::stay_out);

  EXPECT_EQ(record::encoded(state), before);
}

TEST_F(Rules, a_grant_is_recorded_with_its_label_command_and_time) {
  auto claim = exclusive(1);
  claim.label = "nightly";

  granted(claim);

  const auto& record = holder(1);
  EXPECT_EQ(record.label, "nightly");
  EXPECT_EQ(record.argv, claim.command);
  EXPECT_EQ(record.since, now.wall);
  EXPECT_EQ(record.granted_at, now.boot);
}

TEST_F(Rules, an_attached_grant_has_no_deadline) {
  EXPECT_EQ(granted(exclusive(1)).deadline, Clock::time_point::max());
}

// Fences

TEST_F(Rules, a_fence_is_the_wall_clock_in_microseconds) {
  now.wall = WallTime(1'234'567'890);

  EXPECT_EQ(granted(exclusive(1)).fence.number, 1'234'567'890u);
}

TEST_F(Rules, a_fence_is_one_more_than_the_last_if_the_wall_clock_has_not_advanced) {
  const auto first = granted(exclusive(1)).fence;
  released(1);

  const auto second = granted(exclusive(2)).fence;

  EXPECT_EQ(second.number, first.number + 1);
}

TEST_F(Rules, a_fence_is_one_more_than_the_last_if_the_wall_clock_stepped_back) {
  const auto first = granted(exclusive(1)).fence;
  released(1);
  now.wall -= hours(24);

  const auto second = granted(exclusive(2)).fence;

  EXPECT_EQ(second.number, first.number + 1);
}

TEST_F(Rules, a_fence_follows_the_wall_clock_if_it_has_advanced) {
  granted(exclusive(1));
  released(1);
  pass(hours(1));

  const auto second = granted(exclusive(2)).fence;

  EXPECT_EQ(second.number, static_cast<std::uint64_t>(now.wall.count()));
}

TEST_F(Rules, fences_grow_even_if_the_wall_clock_is_before_1970) {
  now.wall = WallTime(-5);
  state.last_fence.number = 7;

  EXPECT_EQ(granted(exclusive(1)).fence.number, 8u);
}

// The queue

TEST_F(Rules, a_release_wakes_only_the_first_waiter) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));

  released(1);

  EXPECT_EQ(then.wake, (Sessions{2}));
}

TEST_F(Rules, a_release_without_waiters_wakes_nobody) {
  granted(exclusive(1));

  released(1);

  EXPECT_TRUE(then.wake.empty());
}

TEST_F(Rules, a_waiter_that_is_granted_the_lock_wakes_nobody_else) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);

  granted(exclusive(2));

  EXPECT_TRUE(then.wake.empty());
}

// Promises that lapse

TEST_F(Rules, a_promise_keeps_others_out_for_3_seconds) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  pass(seconds(3) - nanoseconds(1));

  EXPECT_TRUE(is_busy(exclusive(3)));
}

TEST_F(Rules, after_3_seconds_a_promise_passes_to_the_next_waiter) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  pass(seconds(3));

  EXPECT_TRUE(is_granted(exclusive(3)));
}

TEST_F(Rules, any_claim_that_asks_passes_a_lapsed_promise_on) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  pass(seconds(3));

  ask(exclusive(4));

  EXPECT_EQ(promised(), (Sessions{3}));
  EXPECT_EQ(then.wake, (Sessions{3}));
}

TEST_F(Rules, a_promise_can_be_taken_up_until_it_lapses) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  pass(seconds(3) - nanoseconds(1));

  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(Rules, a_late_waiter_still_goes_before_those_behind_it) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  pass(seconds(4));

  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(Rules, a_waiter_that_was_passed_over_has_its_place_back_once_it_asks_again) {
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

TEST_F(Rules, a_parked_waiter_is_passed_over_until_it_is_back_and_keeps_its_place) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  waiter(2).parked_until = now.boot + seconds(60);

  released(1);
  EXPECT_EQ(promised(), (Sessions{3}));
  granted(exclusive(3));
  EXPECT_EQ(queued(exclusive(2)).place, 1u);
  released(3);

  EXPECT_EQ(promised(), (Sessions{2}));
}

TEST_F(Rules, a_lock_is_free_for_the_first_to_ask_if_all_waiters_are_parked) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u}) {
    queued(exclusive(who));
    waiter(who).parked_until = now.boot + seconds(60);
  }

  released(1);

  EXPECT_EQ(promised(), (Sessions{}));
  EXPECT_TRUE(is_granted(exclusive(3)));
}

TEST_F(Rules, a_newcomer_is_granted_a_lock_whose_promises_all_lapsed) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  pass(seconds(3));

  EXPECT_TRUE(is_granted(exclusive(3)));
}

TEST_F(Rules, a_promise_that_ends_more_than_3_seconds_ahead_does_not_count) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  waiter(2).promised_until = now.boot + seconds(3) + nanoseconds(1);

  EXPECT_TRUE(is_granted(exclusive(3)));
}

TEST_F(Rules, the_promise_after_one_that_lapsed_holds_for_half_a_second) {
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

TEST_F(Rules, a_waiter_passed_over_long_ago_does_not_shorten_later_promises) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  released(1);
  pass(seconds(3));
  granted(exclusive(3));

  released(3);

  EXPECT_EQ(waiter(4).promised_until, now.boot + seconds(3));
}

// Waiters that are known to be stopped

TEST_F(Rules, stopped_waiters_are_passed_over_at_once) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u, 5u}) queued(exclusive(who));
  liveness.stopped = {2, 3};

  released(1);

  EXPECT_EQ(promised(), (Sessions{4}));
  EXPECT_EQ(waiter(4).promised_until, now.boot + seconds(3));
}

TEST_F(Rules, a_stopped_waiter_is_woken_too_so_that_it_asks_when_it_continues) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  liveness.stopped = {2};

  released(1);

  EXPECT_EQ(then.wake, (Sessions{2, 3}));
}

TEST_F(Rules, a_stopped_waiter_has_its_place_back_once_it_continues) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  liveness.stopped = {2};
  released(1);
  granted(exclusive(3));
  liveness.stopped = {};

  EXPECT_EQ(queued(exclusive(2)).place, 1u);
  released(3);

  EXPECT_EQ(promised(), (Sessions{2}));
}

TEST_F(Rules, a_stopped_waiter_with_nobody_behind_it_is_promised_the_lock) {
  granted(exclusive(1));
  queued(exclusive(2));
  liveness.stopped = {2};

  released(1);

  EXPECT_EQ(promised(), (Sessions{2}));
}

TEST_F(Rules, a_stopped_waiter_keeps_its_place_until_the_lock_is_free) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  liveness.stopped = {2};
  ask(exclusive(3));
  liveness.stopped = {};

  released(1);

  EXPECT_EQ(promised(), (Sessions{2}));
}

TEST_F(Rules, the_lock_of_a_dead_holder_goes_past_stopped_waiters_to_the_one_that_asks) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  liveness.stopped = {2, 3};
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

TEST_F(Rules, a_newcomer_is_granted_a_lock_promised_to_a_dead_waiter) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  die(2);

  EXPECT_TRUE(is_granted(exclusive(3)));
}

TEST_F(Rules, a_release_passes_over_dead_waiters_in_front) {
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

TEST_F(Rules, a_dead_waiter_that_was_passed_over_is_removed) {
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

TEST_F(Rules, a_dead_writer_in_the_queue_does_not_keep_a_reader_out) {
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

TEST_F(Rules, the_lock_of_a_dead_holder_goes_to_the_first_waiter) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  die(1);

  ask(exclusive(3));

  EXPECT_EQ(promised(), (Sessions{2}));
  EXPECT_EQ(then.wake, (Sessions{2}));
}

TEST_F(Rules, the_first_waiter_is_not_woken_if_it_asks_itself) {
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

TEST_F(Rules, a_dead_holder_is_reported_so_that_its_socket_is_removed) {
  granted(exclusive(1));
  die(1);

  ask(exclusive(2));

  EXPECT_EQ(then.dead, (Sessions{1}));
}

TEST_F(Rules, an_expired_detached_lease_leaves_no_socket_to_remove) {
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

TEST_F(Rules, a_dead_holder_that_ran_nothing_is_not_a_run) {
  granted(exclusive(1));
  die(1);

  ask(exclusive(2));

  EXPECT_TRUE(then.vanished.empty());
  EXPECT_FALSE(state.last_run);
}

// Slots

TEST_F(Rules, another_number_of_slots_is_accepted_when_only_the_dead_are_left) {
  granted(slot(1, 2));
  granted(slot(2, 2));
  queued(slot(3, 2));
  for (const Session who : {1u, 2u, 3u}) die(who);

  EXPECT_TRUE(is_granted(slot(4, 3)));
}

TEST_F(Rules, another_number_of_slots_is_accepted_when_a_passed_over_waiter_is_dead) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  pass(seconds(3));
  granted(exclusive(3));
  die(2);
  released(3);

  EXPECT_TRUE(is_granted(slot(4, 3)));
}

TEST_F(Rules, the_first_waiter_is_woken_when_a_slot_has_a_new_holder) {
  granted(slot(1, 2));
  granted(slot(2, 2));
  queued(slot(3, 2));
  queued(slot(4, 2));
  released(1);

  granted(slot(3, 2));

  EXPECT_EQ(then.wake, (Sessions{4}));
}

// Shared

TEST_F(Rules, waiting_readers_are_promised_the_lock_together) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(shared(who));

  released(1);

  EXPECT_EQ(then.wake, (Sessions{2, 3, 4}));
}

// Inside an outer run

TEST_F(Rules, a_writer_is_woken_when_a_reader_overtakes_it) {
  const auto outer = granted(shared(1)).fence;
  queued(exclusive(2));

  granted(inside(shared(3), outer));

  EXPECT_EQ(then.wake, (Sessions{2}));
}

// Release

TEST_F(Rules, a_release_by_another_claim_changes_nothing) {
  granted(exclusive(1));
  queued(exclusive(2));
  const auto before = record::encoded(state);

  release(3, exit_with(1));

  EXPECT_EQ(record::encoded(state), before);
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

TEST_F(Rules, a_run_that_reported_its_end_did_not_vanish) {
  granted(exclusive(1));
  note_command_of(1);

  released(1, exit_with(0));

  EXPECT_TRUE(then.vanished.empty());
}

TEST_F(Rules, a_run_that_ends_is_the_last_even_if_another_vanished_meanwhile) {
  const auto fence = granted(slot(1, 2)).fence;
  granted(slot(2, 2));
  note_command_of(2);
  die(2);

  released(1, exit_with(0));

  ASSERT_TRUE(state.last_run);
  EXPECT_EQ(state.last_run->fence, fence);
}

// Leases that expire

TEST_F(Rules, a_detached_lease_holds_until_it_expires) {
  granted(exclusive(1));
  holder(1).ends_at = now.boot + seconds(30);
  pass(seconds(30) - nanoseconds(1));

  EXPECT_TRUE(is_busy(exclusive(2)));
}

TEST_F(Rules, a_detached_lease_expires) {
  granted(exclusive(1));
  holder(1).ends_at = now.boot + seconds(30);
  pass(seconds(30));

  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(Rules, a_detached_grant_says_until_when_it_holds) {
  EXPECT_EQ(granted(detached(1, seconds(30))).deadline, now.boot + seconds(30));
}

TEST_F(Rules, a_detached_holder_needs_no_session) {
  granted(detached(1));
  die(0);
  die(1);

  EXPECT_TRUE(is_busy(exclusive(2)));
  EXPECT_EQ(state.holders.at(0).party.session, 0u);
}

TEST_F(Rules, a_dead_waiter_for_a_detached_lease_is_passed_over) {
  granted(exclusive(1));
  ask(detached(2), Queue::join);
  queued(exclusive(3));
  die(2);

  released(1);

  EXPECT_EQ(promised(), Sessions{3});
}

TEST_F(Rules, a_repeated_claim_renews_its_detached_lease) {
  granted(detached(1, seconds(30)));
  pass(seconds(20));

  EXPECT_EQ(granted(detached(1, seconds(30))).deadline, now.boot + seconds(30));
  EXPECT_EQ(state.holders.at(0).ends_at, now.boot + seconds(30));
}

TEST_F(Rules, an_expired_detached_lease_is_recorded_as_by_hand_and_not_as_a_run) {
  granted(detached(1, seconds(30)));
  pass(seconds(40));

  granted(exclusive(2));

  EXPECT_FALSE(state.last_run);
  ASSERT_EQ(then.vanished.size(), 1u);
  EXPECT_EQ(then.vanished[0].outcome, "by hand");
  EXPECT_EQ(then.vanished[0].duration, seconds(30));
  EXPECT_EQ(then.vanished[0].ended, now.wall - seconds(10));
}

TEST_F(Rules, a_renewal_extends_a_detached_lease_to_its_ttl_from_now) {
  granted(detached(1, seconds(30)));
  pass(seconds(20));

  EXPECT_EQ(renew(1, seconds(60)), Renewal::confirmed);
  EXPECT_EQ(state.holders.at(0).ends_at, now.boot + seconds(60));
}

TEST_F(Rules, a_renewal_does_not_make_an_attached_lease_expire) {
  granted(exclusive(1));

  EXPECT_EQ(renew(1, seconds(60)), Renewal::confirmed);
  EXPECT_FALSE(state.holders.at(0).ends_at);
}

TEST_F(Rules, a_renewal_that_shortens_a_lease_wakes_the_first_waiter) {
  granted(detached(1, seconds(30)));
  queued(exclusive(2));
  queued(exclusive(3));

  renew(1, seconds(10));
  EXPECT_EQ(then.wake, Sessions{2});
  renew(1, seconds(20));
  EXPECT_EQ(then.wake, Sessions{});
}

// The command of a holder

TEST_F(Rules, the_command_of_a_holder_is_recorded_with_its_start_time) {
  granted(exclusive(1));

  record_command(
      state, token_of(1),
      {77, Clock::time_point(nanoseconds(5)), Clock::time_point(nanoseconds(9))});

  EXPECT_EQ(holder(1).command, 77);
  EXPECT_EQ(holder(1).command_after, 5);
  EXPECT_EQ(holder(1).command_before, 9);
}

TEST_F(Rules, the_command_of_a_waiter_is_not_recorded) {
  granted(exclusive(1));
  queued(exclusive(2));
  const auto before = record::encoded(state);

  record_command(state, token_of(2), {77, now.boot, now.boot});

  EXPECT_EQ(record::encoded(state), before);
}

// What a waiter watches

TEST_F(Rules, the_first_waiter_watches_the_holder) {
  granted(exclusive(1));
  queued(exclusive(2));

  const auto seen = watch(2);

  EXPECT_EQ(seen.predecessor, nullptr);
  ASSERT_EQ(seen.holders.size(), 1u);
  EXPECT_EQ(seen.holders[0]->party.session, 1u);
}

TEST_F(Rules, the_first_waiter_watches_every_holder) {
  granted(shared(1));
  granted(shared(2));
  queued(exclusive(3));

  EXPECT_EQ(watch(3).holders.size(), 2u);
}

TEST_F(Rules, the_other_waiters_watch_only_the_one_before_them) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));

  const auto seen = watch(4);

  ASSERT_NE(seen.predecessor, nullptr);
  EXPECT_EQ(seen.predecessor->session, 3u);
  EXPECT_TRUE(seen.holders.empty());
}

TEST_F(Rules, a_waiter_watches_the_holders_if_all_before_it_have_to_let_it_pass) {
  granted(slot(1, 2));
  granted(slot(2, 2));
  queued(spreading(3, 2));
  queued(spreading(4, 2));
  queued(slot(5, 2));

  EXPECT_EQ(watch(5).predecessor, nullptr);
  EXPECT_EQ(watch(5).holders.size(), 2u);
  ASSERT_NE(watch(4).predecessor, nullptr);
  EXPECT_EQ(watch(4).predecessor->session, 3u);
}

TEST_F(Rules, a_promise_is_given_back_if_somebody_else_on_the_host_has_got_a_slot) {
  for (const Session who : {1u, 2u, 3u}) granted(slot(who, 3));
  for (auto& holder : state.holders) holder.party.host = "web2";
  queued(spreading(4, 3));
  released(1);
  released(2);
  ASSERT_EQ(promised(), (Sessions{4}));
  granted(slot(5, 3));

  EXPECT_TRUE(is_busy(spreading(4, 3)));
  EXPECT_EQ(promised(), Sessions{});
  released(5);
  granted(spreading(4, 3));
}

TEST_F(Rules, nobody_watches_a_waiter_that_was_passed_over) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u}) queued(exclusive(who));
  released(1);
  pass(seconds(3));
  granted(exclusive(3));

  const auto seen = watch(4);

  EXPECT_EQ(seen.predecessor, nullptr);
  EXPECT_EQ(seen.holders.size(), 1u);
}

TEST_F(Rules, the_first_two_waiters_ask_again_after_a_second) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));

  EXPECT_EQ(watch(2).ask_again, now.boot + seconds(1));
  EXPECT_EQ(watch(3).ask_again, now.boot + seconds(1));
}

TEST_F(Rules, later_waiters_ask_again_a_second_later_for_each_place_up_to_20_seconds) {
  granted(exclusive(1));
  for (Session who = 2; who <= 40; ++who) queued(exclusive(who));

  EXPECT_EQ(watch(4).ask_again, now.boot + seconds(4));
  EXPECT_EQ(watch(5).ask_again, now.boot + seconds(5));
  EXPECT_EQ(watch(20).ask_again, now.boot + seconds(20));
  EXPECT_EQ(watch(40).ask_again, now.boot + seconds(20));
}

TEST_F(Rules, a_waiter_that_was_passed_over_does_not_delay_those_behind_it) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u, 5u}) queued(exclusive(who));
  released(1);
  pass(seconds(3));
  granted(exclusive(3));

  EXPECT_EQ(watch(5).ask_again, now.boot + seconds(1));
}

TEST_F(Rules, the_waiter_behind_a_promise_asks_again_when_it_lapses) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));
  released(1);
  const auto lapses = now.boot + seconds(3);
  pass(milliseconds(2500));

  EXPECT_EQ(watch(3).ask_again, lapses);
}

TEST_F(Rules, waiters_further_behind_a_promise_ask_again_soon_after_it_lapses) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u, 5u}) queued(exclusive(who));
  released(1);
  const auto lapses = now.boot + seconds(3);
  pass(milliseconds(2500));

  EXPECT_EQ(watch(4).ask_again, lapses + milliseconds(10));
  EXPECT_EQ(watch(5).ask_again, lapses + milliseconds(20));
}

TEST_F(Rules, the_first_waiter_asks_again_when_a_detached_lease_expires) {
  granted(exclusive(1));
  queued(exclusive(2));
  holder(1).ends_at = now.boot + milliseconds(300);

  EXPECT_EQ(watch(2).ask_again, now.boot + milliseconds(300));
}

TEST_F(Rules, a_claim_that_does_not_queue_asks_again_at_once) {
  granted(exclusive(1));

  EXPECT_EQ(watch(2).ask_again, now.boot);
}

// What those in front are told

TEST_F(Rules, a_step_that_promises_the_lock_tells_the_one_that_is_among_the_next_two) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u, 5u}) queued(exclusive(who));
  auto before = state;

  released(1);

  EXPECT_EQ(promised(), Sessions{2});
  EXPECT_EQ(come_to_front(before, state, now), Sessions{4});

  // It knows that already.
  before = state;
  granted(exclusive(2));
  EXPECT_EQ(come_to_front(before, state, now), Sessions{});
}

TEST_F(Rules, a_step_of_a_waiter_that_leaves_tells_the_one_that_is_among_the_first_two) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u, 5u, 6u}) queued(exclusive(who));
  auto before = state;
  release(3);
  EXPECT_EQ(come_to_front(before, state, now), Sessions{4});

  before = state;
  release(6);
  EXPECT_EQ(come_to_front(before, state, now), Sessions{});
}

TEST_F(Rules, a_step_behind_a_promise_that_lapses_tells_the_next) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u, 5u}) queued(exclusive(who));
  released(1);
  pass(seconds(3));
  const auto before = state;

  granted(exclusive(3));

  EXPECT_EQ(come_to_front(before, state, now), Sessions{5});
}

TEST_F(Rules, who_is_parked_is_not_in_front) {
  granted(exclusive(1));
  for (const Session who : {2u, 3u, 4u, 5u}) queued(exclusive(who));
  const auto before = state;

  waiter(3).parked_until = now.boot + seconds(10);

  EXPECT_EQ(come_to_front(before, state, now), Sessions{4});
  EXPECT_EQ(watch(4).ask_again, now.boot + seconds(1));
}

TEST(Places, are_written_again_once_they_are_not_fresh) {
  const Moment now{Clock::time_point(hours(1)), seconds(1'700'000'000)};
  const milliseconds lasts(90'000);
  const auto age_after = [&](std::size_t place, milliseconds age) {
    const auto until = place_until(now.boot + lasts - age, place, lasts, now);
    return lasts - std::chrono::duration_cast<milliseconds>(until - now.boot);
  };

  EXPECT_EQ(place_until({}, 1, lasts, now), now.boot + lasts);
  EXPECT_EQ(age_after(2, milliseconds(15'000)), milliseconds(15'000));
  EXPECT_EQ(age_after(2, milliseconds(15'001)), milliseconds(0));
  EXPECT_EQ(age_after(3, milliseconds(33'000)), milliseconds(33'000));
  EXPECT_EQ(age_after(3, milliseconds(33'001)), milliseconds(0));
}

// What `status` shows

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

TEST_F(Rules, a_lock_shows_its_waiters_in_order) {
  granted(exclusive(1));
  queued(exclusive(2));
  queued(exclusive(3));

  const auto shown = info();

  ASSERT_EQ(shown.waiters.size(), 2u);
  EXPECT_EQ(shown.waiters[0].pid, 1002);
  EXPECT_EQ(shown.waiters[1].pid, 1003);
}

TEST_F(Rules, a_waiter_shows_how_long_it_has_waited) {
  granted(exclusive(1));
  queued(exclusive(2));
  const auto since = now.wall;
  pass(seconds(5));

  const auto shown = info().waiters.at(0);

  EXPECT_EQ(shown.waiting, seconds(5));
  EXPECT_EQ(shown.since, since);
}

TEST_F(Rules, dead_holders_and_waiters_are_not_shown) {
  granted(exclusive(1));
  queued(exclusive(2));
  die(1);
  die(2);

  const auto shown = info();

  EXPECT_TRUE(shown.holders.empty());
  EXPECT_TRUE(shown.waiters.empty());
  EXPECT_EQ(shown.free, 1u);
}

// Out of use

TEST_F(Rules, a_lock_is_kept_for_30_days_after_its_last_use) {
  granted(exclusive(1));
  released(1);
  pass(hours(24 * 32));

  EXPECT_FALSE(is_out_of_use(state, now, liveness));
}

TEST_F(Rules, a_lock_is_out_of_use_30_days_after_its_last_use) {
  granted(exclusive(1));
  released(1);
  pass(hours(24 * 32) + seconds(1));

  EXPECT_TRUE(is_out_of_use(state, now, liveness));
}

TEST_F(Rules, a_lock_whose_holder_and_waiters_died_is_eventually_out_of_use) {
  granted(exclusive(1));
  queued(exclusive(2));
  die(1);
  die(2);
  pass(hours(24 * 32) + seconds(1));

  EXPECT_TRUE(is_out_of_use(state, now, liveness));
}

TEST_F(Rules, a_lock_with_a_waiter_is_in_use) {
  granted(exclusive(1));
  queued(exclusive(2));
  die(1);
  pass(hours(24 * 365));

  EXPECT_FALSE(is_out_of_use(state, now, liveness));
}

TEST_F(Rules, a_held_lock_is_never_out_of_use) {
  granted(exclusive(1));
  pass(hours(24 * 365));

  EXPECT_FALSE(is_out_of_use(state, now, liveness));
}

TEST_F(Rules,
       a_lock_is_out_of_use_after_its_last_detached_lease_though_nobody_removed_it) {
  granted(detached(1, hours(24 * 33)));
  pass(hours(24 * 33) - seconds(1));
  EXPECT_FALSE(is_out_of_use(state, now, liveness));
  pass(seconds(1));
  EXPECT_TRUE(is_out_of_use(state, now, liveness));
}

TEST_F(Rules, a_promised_lock_is_never_out_of_use) {
  granted(exclusive(1));
  queued(exclusive(2));
  released(1);
  pass(hours(24 * 365));

  EXPECT_FALSE(is_out_of_use(state, now, liveness));
}

// A queue of exclusive waiters behind a holder, whose last runs took this long.
State long_queue(std::size_t waiters, milliseconds took) {
  State state;
  state.holders.emplace_back().granted_at = Clock::time_point(seconds(1000));
  for (std::size_t i = 1; i <= waiters; ++i) {
    state.waiters.emplace_back().party.token.bytes[0] = static_cast<std::uint8_t>(i);
  }
  for (const auto longer : {0, 1000}) {
    state.runs.emplace_back().duration = took + milliseconds(longer);
  }
  return state;
}

std::optional<milliseconds> parked_at(const State& state, std::uint8_t place) {
  Token token;
  token.bytes[0] = place;
  return parked_for(state, token, {Clock::time_point(seconds(1000)), seconds(1000)});
}

TEST(SafetyNets, are_wide_where_a_check_is_dear) {
  auto state = long_queue(100, seconds(60));
  const Moment now{Clock::time_point(seconds(1000)), seconds(1000)};
  const auto checks_after = [&](int place, const SafetyNet& net) {
    Token token;
    token.bytes[0] = static_cast<std::uint8_t>(place);
    return std::chrono::duration_cast<milliseconds>(
        waits_for(state, token, now, net).ask_again - now.boot);
  };

  EXPECT_EQ(checks_after(2, {}), seconds(1));
  EXPECT_EQ(checks_after(5, {}), seconds(6));
  EXPECT_EQ(checks_after(100, {}), seconds(20));
  EXPECT_EQ(checks_after(1, wide_safety_net), milliseconds(2500));
  EXPECT_EQ(checks_after(2, wide_safety_net), milliseconds(2500));
  EXPECT_EQ(checks_after(3, wide_safety_net), seconds(5));
  EXPECT_EQ(checks_after(4, wide_safety_net), seconds(10));
  for (const int place : {5, 6, 100}) {
    EXPECT_EQ(checks_after(place, wide_safety_net), seconds(45));
  }

  // All before it may die together with the holder.
  const auto checks_at_end_in = [&](milliseconds left, int place) {
    state.holders[0].lives_until = now.boot + left;
    return checks_after(place, wide_safety_net);
  };
  EXPECT_EQ(checks_at_end_in(milliseconds(1000), 3), milliseconds(2500));
  EXPECT_EQ(checks_at_end_in(milliseconds(4000), 3), milliseconds(4060));
  EXPECT_EQ(checks_at_end_in(milliseconds(9000), 3), seconds(5));
  EXPECT_EQ(checks_at_end_in(milliseconds(4000), 5), milliseconds(5100));
  EXPECT_EQ(checks_at_end_in(seconds(30), 8), milliseconds(31'160));
  EXPECT_EQ(checks_at_end_in(seconds(4), 9), seconds(25));
  EXPECT_EQ(checks_at_end_in(seconds(60), 9), seconds(45));
  state.holders[0].lives_until.reset();

  // Then it can be parked.
  state.runs.clear();
  EXPECT_EQ(checks_after(5, wide_safety_net), seconds(5));
  EXPECT_EQ(checks_after(4, wide_safety_net), seconds(10));
}

TEST(Parking, is_for_those_whose_turn_cannot_come_soon) {
  auto state = long_queue(100, seconds(20));
  EXPECT_EQ(parked_at(state, 4), std::nullopt);
  EXPECT_EQ(parked_at(state, 5), seconds(10));
  EXPECT_EQ(parked_at(state, 8), seconds(40));
  EXPECT_EQ(parked_at(state, 100), seconds(90));

  state.slots = 3;
  EXPECT_EQ(parked_at(state, 6), std::nullopt);
  EXPECT_EQ(parked_at(state, 12), seconds(20));
}

TEST(Parking, is_not_for_a_queue_that_drains_quickly) {
  EXPECT_EQ(parked_at(long_queue(40, milliseconds(100)), 40), std::nullopt);
  EXPECT_EQ(parked_at(long_queue(100, milliseconds(50)), 100), seconds(4));
}

TEST(Parking,
     is_for_those_for_whom_a_server_has_no_room_even_if_the_queue_drains_quickly) {
  const auto state = long_queue(100, milliseconds(1));
  EXPECT_EQ(parked_at(state, 41), std::nullopt);
  EXPECT_EQ(parked_at(state, 42), seconds(4));
  EXPECT_EQ(parked_at(state, 100), milliseconds(9600));
}

TEST(Parking, lasts_longer_the_longer_the_lock_is_held_by_one) {
  auto state = long_queue(100, seconds(1));
  state.holders[0].granted_at = Clock::time_point(seconds(1000 - 60));
  EXPECT_EQ(parked_at(state, 5), seconds(4));
  state.holders[0].granted_at = Clock::time_point(seconds(1000 - 110));
  EXPECT_EQ(parked_at(state, 5), seconds(10));
  state.holders[0].granted_at = Clock::time_point(seconds(0));
  EXPECT_EQ(parked_at(state, 5), seconds(90));
}

TEST(Parking, is_not_for_one_that_has_only_parked_ones_before_it) {
  auto state = long_queue(20, seconds(20));
  for (std::size_t i = 0; i < 15; ++i) {
    state.waiters[i].parked_until = Clock::time_point(seconds(1001));
  }
  EXPECT_EQ(parked_at(state, 19), std::nullopt);
  EXPECT_EQ(parked_at(state, 20), seconds(90));

  state.waiters[0].parked_until = Clock::time_point(seconds(1000));  // that has asked
  EXPECT_EQ(parked_at(state, 18), std::nullopt);
  EXPECT_EQ(parked_at(state, 19), seconds(90));
}

TEST(Parking, counts_readers_that_enter_together_as_one) {
  auto state = long_queue(40, seconds(60));
  for (std::size_t i = 1; i < 30; ++i) state.waiters[i].mode = Mode::shared;

  EXPECT_EQ(parked_at(state, 30), std::nullopt);
  EXPECT_EQ(parked_at(state, 31), std::nullopt);
  EXPECT_NE(parked_at(state, 33), std::nullopt);
}

TEST(Parking, takes_from_the_holder_how_long_runs_are_if_none_has_ended) {
  auto state = long_queue(20, seconds(0));
  state.runs.clear();
  state.holders[0].granted_at = Clock::time_point(seconds(1000));
  EXPECT_EQ(parked_at(state, 20), std::nullopt);

  state.holders[0].granted_at = Clock::time_point(seconds(900));
  EXPECT_EQ(parked_at(state, 5), seconds(50));
}

}  // namespace
}  // namespace dlock::rules
