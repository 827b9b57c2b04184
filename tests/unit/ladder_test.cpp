// When the command's processes are told to end, and when they are made to.

#include "supervise/ladder.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace dlock {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using Action = Ladder::Action;

constexpr Clock::time_point start{hours(1)};

SupervisionPlan plan() { return {}; }

SupervisionPlan with_timeout(milliseconds timeout) {
  auto made = plan();
  made.timeout = timeout;
  return made;
}

SupervisionPlan with_stragglers(Stragglers stragglers) {
  auto made = plan();
  made.stragglers = stragglers;
  return made;
}

SupervisionPlan with_kill_after(milliseconds kill_after) {
  auto made = plan();
  made.kill_after = kill_after;
  made.kill_after_forwarded = true;
  return made;
}

// Nothing special happens

TEST(Ladder, a_command_that_runs_is_left_alone) {
  Ladder ladder(plan(), start);

  EXPECT_EQ(ladder.next(start), Action::wait);
  EXPECT_EQ(ladder.next(start + hours(1000)), Action::wait);
}

TEST(Ladder, without_a_deadline_nobody_looks_at_the_clock) {
  Ladder ladder(plan(), start);

  EXPECT_EQ(ladder.look_again(start), Clock::time_point::max());
}

TEST(Ladder, a_run_is_over_when_its_command_has_ended) {
  Ladder ladder(plan(), start);

  ladder.command_ended();

  EXPECT_EQ(ladder.next(start), Action::done);
}

TEST(Ladder, a_run_that_ended_by_itself_neither_timed_out_nor_lost_its_lock) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.command_ended();

  ladder.next(start + seconds(1));

  EXPECT_FALSE(ladder.timed_out());
  EXPECT_FALSE(ladder.lost());
}

// Timeout

TEST(Ladder, before_its_timeout_a_command_is_left_alone) {
  Ladder ladder(with_timeout(seconds(10)), start);

  EXPECT_EQ(ladder.next(start + seconds(10) - nanoseconds(1)), Action::wait);
}

TEST(Ladder, it_is_looked_again_at_the_timeout) {
  Ladder ladder(with_timeout(seconds(10)), start);

  EXPECT_EQ(ladder.look_again(start), start + seconds(10));
}

TEST(Ladder, at_its_timeout_a_command_is_told_to_end) {
  Ladder ladder(with_timeout(seconds(10)), start);

  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_term);
  EXPECT_TRUE(ladder.timed_out());
}

TEST(Ladder, a_command_is_told_to_end_once) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));

  EXPECT_EQ(ladder.next(start + seconds(11)), Action::wait);
}

TEST(Ladder, a_command_has_5_seconds_to_end) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));

  EXPECT_EQ(ladder.look_again(start + seconds(10)), start + seconds(15));
  EXPECT_EQ(ladder.next(start + seconds(15) - nanoseconds(1)), Action::wait);
  EXPECT_EQ(ladder.next(start + seconds(15)), Action::send_kill);
}

TEST(Ladder, a_command_has_as_long_to_end_as_kill_after_says) {
  auto plan = with_timeout(seconds(10));
  plan.kill_after = milliseconds(700);
  Ladder ladder(plan, start);
  ladder.next(start + seconds(10));

  EXPECT_EQ(ladder.next(start + milliseconds(10'699)), Action::wait);
  EXPECT_EQ(ladder.next(start + milliseconds(10'700)), Action::send_kill);
}

TEST(Ladder, a_kill_after_of_nothing_still_tells_the_command_first) {
  auto plan = with_timeout(seconds(10));
  plan.kill_after = milliseconds(0);
  Ladder ladder(plan, start);

  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_term);
  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_kill);
}

TEST(Ladder, a_late_look_gives_a_command_its_whole_time_to_end) {
  Ladder ladder(with_timeout(seconds(10)), start);

  ladder.next(start + seconds(100));

  EXPECT_EQ(ladder.look_again(start + seconds(100)), start + seconds(105));
}

TEST(Ladder, a_timeout_beyond_the_end_of_time_is_none) {
  Ladder ladder(with_timeout(milliseconds::max()), start);

  EXPECT_EQ(ladder.next(start + hours(1'000'000)), Action::wait);
}

TEST(Ladder, a_timed_out_tree_is_killed_again_and_again_until_it_is_gone) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));
  ladder.next(start + seconds(15));

  EXPECT_EQ(ladder.next(start + seconds(16)), Action::send_kill);
}

TEST(Ladder, a_tree_that_is_being_killed_is_looked_at_again_soon) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));
  const auto now = start + seconds(15);
  ladder.next(now);

  EXPECT_GT(ladder.look_again(now), now);
  EXPECT_LE(ladder.look_again(now), now + milliseconds(100));
}

TEST(Ladder, a_timed_out_run_is_not_over_while_its_tree_lives) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));

  ladder.command_ended();

  EXPECT_EQ(ladder.next(start + seconds(11)), Action::wait);
  EXPECT_EQ(ladder.next(start + seconds(15)), Action::send_kill);
}

TEST(Ladder, a_timed_out_run_is_over_when_its_tree_is_gone) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));

  ladder.command_ended();
  ladder.tree_is_empty(true);

  EXPECT_EQ(ladder.next(start + seconds(11)), Action::done);
  EXPECT_TRUE(ladder.timed_out());
}

TEST(Ladder, an_empty_tree_below_a_command_that_runs_ends_nothing) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.tree_is_empty(true);
  ladder.next(start + seconds(10));

  EXPECT_EQ(ladder.next(start + seconds(11)), Action::wait);
}

// A TERM that was passed on

TEST(Ladder, a_command_that_was_sent_a_term_by_others_may_take_its_time) {
  Ladder ladder(plan(), start);

  ladder.forwarded(SIGTERM, start);

  EXPECT_EQ(ladder.next(start + hours(1)), Action::wait);
}

TEST(Ladder, with_a_kill_after_of_the_users_a_term_by_others_is_followed_by_a_kill) {
  Ladder ladder(with_kill_after(seconds(2)), start);

  ladder.forwarded(SIGTERM, start + seconds(1));

  EXPECT_EQ(ladder.look_again(start + seconds(1)), start + seconds(3));
  EXPECT_EQ(ladder.next(start + seconds(3) - nanoseconds(1)), Action::wait);
  EXPECT_EQ(ladder.next(start + seconds(3)), Action::send_kill);
}

TEST(Ladder, a_second_term_by_others_does_not_put_off_the_kill) {
  Ladder ladder(with_kill_after(seconds(2)), start);
  ladder.forwarded(SIGTERM, start);

  ladder.forwarded(SIGTERM, start + seconds(1));

  EXPECT_EQ(ladder.next(start + seconds(2)), Action::send_kill);
}

TEST(Ladder, another_signal_by_others_is_not_followed_by_a_kill) {
  Ladder ladder(with_kill_after(seconds(2)), start);

  ladder.forwarded(SIGINT, start);

  EXPECT_EQ(ladder.next(start + hours(1)), Action::wait);
}

TEST(Ladder, a_command_that_ends_after_a_term_by_others_has_not_timed_out) {
  Ladder ladder(with_kill_after(seconds(2)), start);
  ladder.forwarded(SIGTERM, start);

  ladder.command_ended();

  EXPECT_EQ(ladder.next(start + seconds(1)), Action::done);
  EXPECT_FALSE(ladder.timed_out());
}

TEST(Ladder, once_a_command_is_killed_after_a_term_by_others_all_of_it_has_to_go) {
  Ladder ladder(with_kill_after(seconds(2)), start);
  ladder.forwarded(SIGTERM, start);
  ladder.next(start + seconds(2));

  ladder.command_ended();
  ladder.tree_is_empty(false);

  EXPECT_EQ(ladder.next(start + seconds(3)), Action::send_kill);
}

TEST(Ladder, a_timeout_between_a_term_by_others_and_its_kill_does_not_put_off_the_kill) {
  auto plan = with_kill_after(seconds(4));
  plan.timeout = seconds(10);
  Ladder ladder(plan, start);
  ladder.forwarded(SIGTERM, start + seconds(8));

  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_term);
  EXPECT_EQ(ladder.next(start + seconds(12)), Action::send_kill);
}

// A lost lease

TEST(Ladder, a_command_that_lost_its_lock_is_told_to_end_at_once) {
  Ladder ladder(plan(), start);

  ladder.lease_lost(Loss::gone, start + seconds(1));

  EXPECT_EQ(ladder.next(start + seconds(1)), Action::send_term);
}

TEST(Ladder, a_command_that_lost_its_lock_has_one_second_to_end) {
  Ladder ladder(plan(), start);
  ladder.lease_lost(Loss::gone, start);
  ladder.next(start);

  EXPECT_EQ(ladder.look_again(start), start + seconds(1));
  EXPECT_EQ(ladder.next(start + seconds(1)), Action::send_kill);
}

TEST(Ladder, a_command_that_lost_its_lock_has_no_longer_than_kill_after_says) {
  Ladder ladder(with_kill_after(milliseconds(200)), start);
  ladder.lease_lost(Loss::gone, start);
  ladder.next(start);

  EXPECT_EQ(ladder.next(start + milliseconds(200)), Action::send_kill);
}

TEST(Ladder, the_first_loss_is_the_one_that_counts) {
  Ladder ladder(plan(), start);
  ladder.lease_lost(Loss::taken_over, start);

  ladder.lease_lost(Loss::gone, start + seconds(1));

  EXPECT_EQ(ladder.lost(), Loss::taken_over);
}

TEST(Ladder, a_second_loss_does_not_put_off_the_kill) {
  Ladder ladder(plan(), start);
  ladder.lease_lost(Loss::gone, start);
  ladder.next(start);

  ladder.lease_lost(Loss::gone, start + milliseconds(900));

  EXPECT_EQ(ladder.next(start + seconds(1)), Action::send_kill);
}

TEST(Ladder, a_loss_after_the_timeout_hastens_the_kill) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));

  ladder.lease_lost(Loss::gone, start + seconds(11));

  EXPECT_EQ(ladder.look_again(start + seconds(11)), start + seconds(12));
  EXPECT_EQ(ladder.next(start + seconds(12)), Action::send_kill);
}

TEST(Ladder, a_loss_is_not_a_timeout) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.lease_lost(Loss::gone, start + seconds(9));
  ladder.next(start + seconds(9));

  ladder.next(start + seconds(10));

  EXPECT_FALSE(ladder.timed_out());
}

TEST(Ladder, a_run_that_lost_its_lock_is_over_only_when_its_tree_is_gone) {
  Ladder ladder(plan(), start);
  ladder.lease_lost(Loss::gone, start);
  ladder.next(start);
  ladder.command_ended();

  EXPECT_EQ(ladder.next(start), Action::wait);
  ladder.tree_is_empty(true);
  EXPECT_EQ(ladder.next(start), Action::done);
}

// Stragglers

TEST(Ladder, stragglers_are_left_alone) {
  Ladder ladder(with_stragglers(Stragglers::leave), start);

  ladder.command_ended();

  EXPECT_FALSE(ladder.needs_tree());
  EXPECT_EQ(ladder.next(start), Action::done);
}

TEST(Ladder, the_tree_is_of_no_interest_while_the_command_runs) {
  EXPECT_FALSE(Ladder(with_stragglers(Stragglers::wait), start).needs_tree());
  EXPECT_FALSE(Ladder(with_stragglers(Stragglers::kill), start).needs_tree());
}

TEST(Ladder, stragglers_can_be_waited_for) {
  Ladder ladder(with_stragglers(Stragglers::wait), start);

  ladder.command_ended();

  EXPECT_TRUE(ladder.needs_tree());
  EXPECT_EQ(ladder.next(start + hours(1)), Action::wait);
}

TEST(Ladder, a_run_that_waits_for_stragglers_is_over_when_they_are_gone) {
  Ladder ladder(with_stragglers(Stragglers::wait), start);
  ladder.command_ended();

  ladder.tree_is_empty(true);

  EXPECT_EQ(ladder.next(start), Action::done);
}

TEST(Ladder, stragglers_that_are_waited_for_can_time_out) {
  auto plan = with_stragglers(Stragglers::wait);
  plan.timeout = seconds(10);
  Ladder ladder(plan, start);
  ladder.command_ended();

  EXPECT_EQ(ladder.look_again(start), start + seconds(10));
  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_term);
  EXPECT_TRUE(ladder.timed_out());
}

TEST(Ladder, stragglers_can_be_ended) {
  Ladder ladder(with_stragglers(Stragglers::kill), start);

  ladder.command_ended();

  EXPECT_TRUE(ladder.needs_tree());
  EXPECT_EQ(ladder.next(start), Action::send_term);
}

TEST(Ladder, stragglers_have_as_long_to_end_as_a_command) {
  Ladder ladder(with_stragglers(Stragglers::kill), start);
  ladder.command_ended();
  ladder.next(start);

  EXPECT_EQ(ladder.next(start + seconds(5) - nanoseconds(1)), Action::wait);
  EXPECT_EQ(ladder.next(start + seconds(5)), Action::send_kill);
}

TEST(Ladder, a_run_that_left_nothing_has_no_stragglers_to_end) {
  Ladder ladder(with_stragglers(Stragglers::kill), start);
  ladder.command_ended();

  ladder.tree_is_empty(true);

  EXPECT_EQ(ladder.next(start), Action::done);
}

TEST(Ladder, a_run_whose_stragglers_are_being_ended_does_not_time_out_any_more) {
  auto plan = with_stragglers(Stragglers::kill);
  plan.timeout = seconds(10);
  Ladder ladder(plan, start);
  ladder.command_ended();
  ladder.next(start + seconds(9));

  ladder.next(start + seconds(10));

  EXPECT_FALSE(ladder.timed_out());
}

TEST(Ladder, stragglers_of_a_command_that_ended_just_in_time_have_not_timed_out) {
  auto plan = with_stragglers(Stragglers::kill);
  plan.timeout = seconds(10);
  Ladder ladder(plan, start);
  ladder.command_ended();

  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_term);
  EXPECT_FALSE(ladder.timed_out());
}

TEST(Ladder, stragglers_that_are_waited_for_end_with_the_lock) {
  Ladder ladder(with_stragglers(Stragglers::wait), start);
  ladder.command_ended();

  ladder.lease_lost(Loss::gone, start + seconds(1));

  EXPECT_EQ(ladder.next(start + seconds(1)), Action::send_term);
  EXPECT_EQ(ladder.next(start + seconds(2)), Action::send_kill);
}

TEST(Ladder, stragglers_that_are_waited_for_are_killed_after_a_term_by_others) {
  auto plan = with_kill_after(seconds(2));
  plan.stragglers = Stragglers::wait;
  Ladder ladder(plan, start);
  ladder.forwarded(SIGTERM, start);
  ladder.command_ended();

  EXPECT_EQ(ladder.next(start + seconds(2)), Action::send_kill);
}

// A lease that can run out: 30 s, so 5 s of grace and 1.5 s of margin

SupervisionPlan with_lease() {
  auto made = plan();
  made.lease.emplace(seconds(30), seconds(5), seconds(2));
  return made;
}

constexpr Clock::time_point deadline = start + seconds(30);

Ladder leased() {
  Ladder ladder(with_lease(), start);
  ladder.lease_holds_until(deadline);
  return ladder;
}

TEST(Ladder, a_command_is_left_alone_as_long_as_it_can_be_ended_before_the_deadline) {
  auto ladder = leased();

  EXPECT_EQ(ladder.next(deadline - milliseconds(6501)), Action::wait);
  EXPECT_EQ(ladder.look_again(start), deadline - milliseconds(6500));
}

TEST(Ladder, a_lease_that_is_not_renewed_ends_the_command_in_time) {
  auto ladder = leased();

  EXPECT_EQ(ladder.next(deadline - milliseconds(6500)), Action::send_term);
  EXPECT_EQ(ladder.lost(), Loss::unconfirmed);
  EXPECT_EQ(ladder.look_again(deadline - milliseconds(6500)),
            deadline - milliseconds(1500));
  EXPECT_EQ(ladder.next(deadline - milliseconds(1500)), Action::send_kill);
}

TEST(Ladder, a_lease_that_is_renewed_holds_on) {
  auto ladder = leased();

  ladder.lease_holds_until(deadline + seconds(10));

  EXPECT_EQ(ladder.next(deadline), Action::wait);
  EXPECT_FALSE(ladder.lost());
}

TEST(Ladder, a_run_in_doubt_is_lost_even_if_its_lease_is_renewed_after_all) {
  auto ladder = leased();
  ladder.next(deadline - milliseconds(6500));

  ladder.lease_holds_until(deadline + seconds(10));

  EXPECT_EQ(ladder.lost(), Loss::unconfirmed);
  EXPECT_EQ(ladder.next(deadline - milliseconds(1501)), Action::wait);
  EXPECT_EQ(ladder.next(deadline - milliseconds(1500)), Action::send_kill);
}

TEST(Ladder, after_a_suspend_beyond_the_lease_the_first_thing_is_to_kill) {
  auto ladder = leased();
  ASSERT_EQ(ladder.next(start), Action::wait);

  EXPECT_EQ(ladder.next(deadline + hours(8)), Action::send_kill);
  EXPECT_EQ(ladder.lost(), Loss::unconfirmed);
}

TEST(Ladder, one_that_wakes_with_no_more_than_the_margin_left_kills_first) {
  auto ladder = leased();

  EXPECT_EQ(ladder.next(deadline - milliseconds(1500)), Action::send_kill);
}

TEST(Ladder, a_suspend_shorter_than_what_can_be_ridden_out_is_not_noticed) {
  auto ladder = leased();

  EXPECT_EQ(ladder.next(deadline - milliseconds(6501)), Action::wait);
}

TEST(Ladder, a_suspend_beyond_the_lease_does_not_matter_where_nothing_runs_out) {
  Ladder ladder(with_lease(), start);
  ladder.lease_holds_until(Clock::time_point::max());

  EXPECT_EQ(ladder.next(start + hours(8)), Action::wait);
  EXPECT_EQ(ladder.look_again(start), Clock::time_point::max());
}

// Nobody renews any more

TEST(Ladder, a_run_whose_owner_was_killed_is_over_within_a_second) {
  auto ladder = leased();

  ladder.owner_gone(start);

  EXPECT_EQ(ladder.next(start), Action::send_term);
  EXPECT_EQ(ladder.look_again(start), start + milliseconds(700));
  EXPECT_EQ(ladder.next(start + milliseconds(700)), Action::send_kill);
}

TEST(Ladder, a_run_whose_owner_was_killed_is_over_before_the_deadline) {
  auto ladder = leased();
  const auto late = deadline - milliseconds(1600);

  ladder.owner_gone(late);

  EXPECT_EQ(ladder.next(late), Action::send_term);
  EXPECT_EQ(ladder.next(deadline - milliseconds(1500)), Action::send_kill);
}

TEST(Ladder, a_run_whose_owner_was_killed_keeps_to_a_shorter_patience) {
  Ladder ladder(with_kill_after(milliseconds(100)), start);

  ladder.owner_gone(start);
  ladder.next(start);

  EXPECT_EQ(ladder.next(start + milliseconds(100)), Action::send_kill);
}

TEST(Ladder, what_outlives_the_command_is_left_alone_though_the_owner_was_killed) {
  auto ladder = leased();
  ladder.command_ended();

  ladder.owner_gone(start);

  EXPECT_EQ(ladder.next(start), Action::done);
}

TEST(Ladder, a_command_whose_end_is_noticed_after_the_deadline_counts_as_lost) {
  auto ladder = leased();

  ladder.command_ended();

  EXPECT_EQ(ladder.next(deadline + seconds(1)), Action::done);
  EXPECT_EQ(ladder.lost(), Loss::unconfirmed);
}

TEST(Ladder, a_lease_that_is_certainly_lost_ends_the_command_quicker) {
  auto ladder = leased();
  ladder.lease_lost(Loss::taken_over, start);

  EXPECT_EQ(ladder.next(start), Action::send_term);
  EXPECT_EQ(ladder.next(start + milliseconds(999)), Action::wait);
  EXPECT_EQ(ladder.next(start + seconds(1)), Action::send_kill);
}

TEST(Ladder, patience_after_a_timeout_ends_before_the_deadline) {
  auto made = with_lease();
  made.timeout = seconds(20);
  made.kill_after = hours(1);
  Ladder ladder(made, start);
  ladder.lease_holds_until(deadline);
  ladder.next(start + seconds(20));

  EXPECT_EQ(ladder.next(deadline - milliseconds(1500)), Action::send_kill);
}

}  // namespace
}  // namespace dlock
