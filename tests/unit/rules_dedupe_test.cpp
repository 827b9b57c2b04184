// The granting rules when runs count for other claims (dedupe), and when locks are kept
// after their runs (min_hold).

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "record/states.hpp"
#include "tests/run_end.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::rules {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using Sessions = std::vector<Session>;

Claim deduping(Session who, milliseconds window = hours(1)) {
  auto claim = exclusive(who);
  claim.dedupe = Dedupe{window, false};
  return claim;
}

Claim retrying(Session who, milliseconds window = hours(1)) {
  auto claim = exclusive(who);
  claim.dedupe = Dedupe{window, true};
  return claim;
}

Claim holding(Session who, milliseconds min_hold) {
  auto claim = exclusive(who);
  claim.min_hold = min_hold;
  return claim;
}

class DedupeRules : public ::testing::Test, protected LockByHand {
 protected:
  Grant granted(const Claim& claim) { return std::get<Grant>(ask(claim)); }
  Busy queued(const Claim& claim) { return std::get<Busy>(ask(claim, Queue::join)); }

  bool is_granted(const Claim& claim, Queue queue = Queue::stay_out) {
    return std::holds_alternative<Grant>(ask(claim, queue));
  }
  bool is_busy(const Claim& claim) { return std::holds_alternative<Busy>(ask(claim)); }
  bool is_deduplicated(const Claim& claim, Queue queue = Queue::stay_out) {
    return std::holds_alternative<Deduplicated>(ask(claim, queue));
  }

  void die(Session who) { liveness.dead.insert(who); }

  Sessions waiters() const {
    Sessions all;
    for (const auto& waiter : state.waiters) all.push_back(waiter.party.session);
    return all;
  }
};

// Which runs count; for how long is decided by is_recent()

TEST_F(DedupeRules, a_run_counts_for_a_window_from_its_start_and_not_from_its_end) {
  granted(exclusive(1));
  pass(minutes(40));
  release(1, exit_with(0));

  pass(minutes(20) - milliseconds(1));
  EXPECT_TRUE(is_deduplicated(deduping(2)));
  pass(milliseconds(1));
  EXPECT_TRUE(is_granted(deduping(2)));
}

TEST_F(DedupeRules, the_window_is_measured_by_the_wall_clock_and_not_since_boot) {
  granted(exclusive(1));
  release(1, exit_with(0));

  now.boot += hours(2);
  EXPECT_TRUE(is_deduplicated(deduping(2)));
  now.wall += hours(2);
  EXPECT_TRUE(is_granted(deduping(2)));
}

TEST_F(DedupeRules, no_run_counts_if_the_clock_was_set_back_far) {
  granted(exclusive(1));
  release(1, exit_with(0));
  now.wall -= hours(24);

  EXPECT_TRUE(is_granted(deduping(2)));
}

TEST_F(DedupeRules, a_holder_that_died_before_its_command_started_was_not_a_run) {
  granted(exclusive(1));
  die(1);

  EXPECT_TRUE(is_granted(deduping(2)));
}

TEST_F(DedupeRules, a_deduplicated_claim_changes_nothing) {
  granted(exclusive(1));
  const auto before = record::encoded(state);

  ask(deduping(2), Queue::join);

  EXPECT_EQ(record::encoded(state), before);
}

// The queue

TEST_F(DedupeRules, a_success_removes_the_waiters_for_whom_it_counts) {
  granted(exclusive(1));
  queued(retrying(2));
  queued(retrying(3, seconds(1)));
  queued(exclusive(4));
  queued(retrying(5));
  pass(seconds(2));

  release(1, exit_with(0));

  EXPECT_EQ(waiters(), (Sessions{3, 4}));
  std::sort(then.wake.begin(), then.wake.end());
  EXPECT_EQ(then.wake, (Sessions{2, 3, 5}));
}

TEST_F(DedupeRules, a_start_removes_the_waiters_for_whom_any_run_counts) {
  granted(shared(1));
  queued(exclusive(2));
  queued(deduping(3));
  queued(retrying(4));
  release(1);

  EXPECT_TRUE(is_granted(exclusive(2), Queue::join));
  EXPECT_EQ(waiters(), (Sessions{4}));
  EXPECT_EQ(then.wake, (Sessions{3}));
}

TEST_F(DedupeRules, a_removed_waiter_is_deduplicated_by_that_run_until_it_releases) {
  granted(exclusive(1));
  queued(retrying(2));
  release(1, exit_with(0));
  pass(hours(2));

  EXPECT_TRUE(is_deduplicated(retrying(2), Queue::join));
  EXPECT_TRUE(is_deduplicated(retrying(2), Queue::join));
  release(2);
  EXPECT_TRUE(is_granted(retrying(2)));
}

TEST_F(DedupeRules, a_removed_waiter_that_died_is_forgotten) {
  granted(exclusive(1));
  queued(retrying(2));
  release(1, exit_with(0));
  die(2);

  ask(exclusive(3));

  EXPECT_TRUE(state.answered.empty());
  EXPECT_EQ(then.dead, (Sessions{2}));
}

TEST_F(DedupeRules, a_removed_waiter_that_asks_wakes_the_next_if_the_holder_has_died) {
  granted(exclusive(1));
  queued(retrying(2));
  queued(exclusive(3));
  release(1, exit_with(0));
  granted(exclusive(3));
  queued(exclusive(4));
  die(3);

  EXPECT_TRUE(is_deduplicated(retrying(2), Queue::join));
  EXPECT_EQ(then.wake, (Sessions{4}));
}

TEST_F(DedupeRules, a_deduplicated_waiter_passes_its_promise_on) {
  granted(shared(1));
  queued(deduping(2));
  queued(exclusive(3));
  release(1);
  // As if the run was recorded without removing waiters: the clock was set since.
  RunInfo run;
  run.started = now.wall;
  run.ended = now.wall;
  run.exit_code = 0;
  state.past.note(run);

  EXPECT_TRUE(is_deduplicated(deduping(2), Queue::join));
  EXPECT_EQ(waiters(), (Sessions{3}));
  EXPECT_TRUE(state.waiters[0].promised_until);
  EXPECT_EQ(then.wake, (Sessions{3}));
}

// Locks that are kept by min_hold

TEST_F(DedupeRules, min_hold_keeps_a_lock_for_exactly_that_time_from_its_grant) {
  granted(holding(1, seconds(10)));
  pass(seconds(4));
  release(1, exit_with(0));
  die(1);

  pass(seconds(6) - nanoseconds(1));
  EXPECT_TRUE(is_busy(exclusive(2)));
  pass(nanoseconds(1));
  EXPECT_TRUE(is_granted(exclusive(2)));
}

TEST_F(DedupeRules, a_lock_is_not_kept_after_a_run_that_took_exactly_min_hold) {
  granted(holding(1, seconds(10)));
  pass(seconds(10));

  release(1, exit_with(0));

  EXPECT_TRUE(state.holders.empty());
}

TEST_F(DedupeRules, a_lock_kept_by_min_hold_is_promised_to_nobody_yet) {
  granted(holding(1, seconds(10)));
  queued(exclusive(2));

  release(1, exit_with(0));

  EXPECT_FALSE(state.waiters[0].promised_until);
}

TEST_F(DedupeRules, the_first_waiter_is_woken_and_told_to_ask_when_min_hold_ends) {
  granted(holding(1, milliseconds(300)));
  queued(exclusive(2));
  queued(exclusive(3));

  release(1, exit_with(0));

  EXPECT_EQ(then.wake, (Sessions{2}));
  EXPECT_EQ(watch(2).ask_again, now.boot + milliseconds(300));
}

TEST_F(DedupeRules, a_lock_that_was_kept_by_min_hold_is_eventually_out_of_use) {
  granted(holding(1, seconds(10)));
  release(1, exit_with(0));
  pass(hours(24 * 32) + seconds(1));

  EXPECT_TRUE(is_out_of_use(state, now, liveness));
}

TEST_F(DedupeRules, a_lock_kept_by_min_hold_for_months_is_in_use) {
  granted(holding(1, hours(24 * 90)));
  release(1, exit_with(0));
  pass(hours(24 * 60));

  EXPECT_FALSE(is_out_of_use(state, now, liveness));
}

TEST_F(DedupeRules, min_hold_can_keep_a_lock_forever) {
  granted(holding(1, milliseconds::max()));
  release(1, exit_with(0));
  pass(hours(1));

  EXPECT_TRUE(is_busy(exclusive(2)));
}

}  // namespace
}  // namespace dlock::rules
