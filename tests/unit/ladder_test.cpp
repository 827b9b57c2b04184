// When the processes of the command are sent SIGTERM, and when SIGKILL.

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

// A normal run

TEST(Ladder, a_running_command_is_left_alone) {
  Ladder ladder(plan(), start);

  EXPECT_EQ(ladder.next(start), Action::wait);
  EXPECT_EQ(ladder.next(start + hours(1000)), Action::wait);
}

TEST(Ladder, without_a_deadline_no_timer_is_needed) {
  Ladder ladder(plan(), start);

  EXPECT_EQ(ladder.next_check(start), Clock::time_point::max());
}

TEST(Ladder, a_run_is_over_when_its_command_has_ended) {
  Ladder ladder(plan(), start);

  ladder.command_ended();

  EXPECT_EQ(ladder.next(start), Action::done);
}

TEST(Ladder, a_run_that_ended_normally_neither_timed_out_nor_lost_its_lock) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.command_ended();

  ladder.next(start + seconds(1));

  EXPECT_FALSE(ladder.timed_out());
  EXPECT_FALSE(ladder.lost());
}

// Timeout

TEST(Ladder, a_command_is_left_alone_before_its_timeout) {
  Ladder ladder(with_timeout(seconds(10)), start);

  EXPECT_EQ(ladder.next(start + seconds(10) - nanoseconds(1)), Action::wait);
}

TEST(Ladder, the_next_check_is_at_the_timeout) {
  Ladder ladder(with_timeout(seconds(10)), start);

  EXPECT_EQ(ladder.next_check(start), start + seconds(10));
}

TEST(Ladder, a_command_is_sent_sigterm_at_its_timeout) {
  Ladder ladder(with_timeout(seconds(10)), start);

  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_term);
  EXPECT_TRUE(ladder.timed_out());
}

TEST(Ladder, a_command_is_sent_sigterm_only_once) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));

  EXPECT_EQ(ladder.next(start + seconds(11)), Action::wait);
}

TEST(Ladder, a_command_has_5_seconds_to_exit) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));

  EXPECT_EQ(ladder.next_check(start + seconds(10)), start + seconds(15));
  EXPECT_EQ(ladder.next(start + seconds(15) - nanoseconds(1)), Action::wait);
  EXPECT_EQ(ladder.next(start + seconds(15)), Action::send_kill);
}

TEST(Ladder, kill_after_sets_how_long_a_command_has_to_exit) {
  auto plan = with_timeout(seconds(10));
  plan.kill_after = milliseconds(700);
  Ladder ladder(plan, start);
  ladder.next(start + seconds(10));

  EXPECT_EQ(ladder.next(start + milliseconds(10'699)), Action::wait);
  EXPECT_EQ(ladder.next(start + milliseconds(10'700)), Action::send_kill);
}

TEST(Ladder, a_kill_after_of_0_still_sends_sigterm_first) {
  auto plan = with_timeout(seconds(10));
  plan.kill_after = milliseconds(0);
  Ladder ladder(plan, start);

  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_term);
  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_kill);
}

TEST(Ladder, a_late_check_gives_a_command_its_whole_time_to_exit) {
  Ladder ladder(with_timeout(seconds(10)), start);

  ladder.next(start + seconds(100));

  EXPECT_EQ(ladder.next_check(start + seconds(100)), start + seconds(105));
}

TEST(Ladder, a_timeout_beyond_the_range_of_the_clock_never_comes) {
  Ladder ladder(with_timeout(milliseconds::max()), start);

  EXPECT_EQ(ladder.next(start + hours(1'000'000)), Action::wait);
}

TEST(Ladder, a_timed_out_tree_is_killed_repeatedly_until_it_is_empty) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));
  ladder.next(start + seconds(15));

  EXPECT_EQ(ladder.next(start + seconds(16)), Action::send_kill);
}

TEST(Ladder, a_tree_that_is_being_killed_is_checked_again_soon) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));
  const auto now = start + seconds(15);
  ladder.next(now);

  EXPECT_GT(ladder.next_check(now), now);
  EXPECT_LE(ladder.next_check(now), now + milliseconds(100));
}

TEST(Ladder, a_timed_out_run_is_not_over_before_its_tree_is_empty) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));

  ladder.command_ended();

  EXPECT_EQ(ladder.next(start + seconds(11)), Action::wait);
  EXPECT_EQ(ladder.next(start + seconds(15)), Action::send_kill);
}

TEST(Ladder, a_timed_out_run_is_over_when_its_tree_is_empty) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));

  ladder.command_ended();
  ladder.tree_is_empty(true);

  EXPECT_EQ(ladder.next(start + seconds(11)), Action::done);
  EXPECT_TRUE(ladder.timed_out());
}

TEST(Ladder, an_empty_tree_does_not_end_a_run_whose_command_still_runs) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.tree_is_empty(true);
  ladder.next(start + seconds(10));

  EXPECT_EQ(ladder.next(start + seconds(11)), Action::wait);
}

// A forwarded SIGTERM

TEST(Ladder, a_forwarded_sigterm_is_not_followed_by_sigkill_by_default) {
  Ladder ladder(plan(), start);

  ladder.forwarded(SIGTERM, start);

  EXPECT_EQ(ladder.next(start + hours(1)), Action::wait);
}

TEST(Ladder, with_an_explicit_kill_after_sigkill_follows_a_forwarded_sigterm) {
  Ladder ladder(with_kill_after(seconds(2)), start);

  ladder.forwarded(SIGTERM, start + seconds(1));

  EXPECT_EQ(ladder.next_check(start + seconds(1)), start + seconds(3));
  EXPECT_EQ(ladder.next(start + seconds(3) - nanoseconds(1)), Action::wait);
  EXPECT_EQ(ladder.next(start + seconds(3)), Action::send_kill);
}

TEST(Ladder, a_second_forwarded_sigterm_does_not_delay_sigkill) {
  Ladder ladder(with_kill_after(seconds(2)), start);
  ladder.forwarded(SIGTERM, start);

  ladder.forwarded(SIGTERM, start + seconds(1));

  EXPECT_EQ(ladder.next(start + seconds(2)), Action::send_kill);
}

TEST(Ladder, another_forwarded_signal_is_not_followed_by_sigkill) {
  Ladder ladder(with_kill_after(seconds(2)), start);

  ladder.forwarded(SIGINT, start);

  EXPECT_EQ(ladder.next(start + hours(1)), Action::wait);
}

TEST(Ladder, a_command_that_exits_after_a_forwarded_sigterm_has_not_timed_out) {
  Ladder ladder(with_kill_after(seconds(2)), start);
  ladder.forwarded(SIGTERM, start);

  ladder.command_ended();

  EXPECT_EQ(ladder.next(start + seconds(1)), Action::done);
  EXPECT_FALSE(ladder.timed_out());
}

TEST(Ladder, once_sigkill_follows_a_forwarded_sigterm_the_whole_tree_is_killed) {
  Ladder ladder(with_kill_after(seconds(2)), start);
  ladder.forwarded(SIGTERM, start);
  ladder.next(start + seconds(2));

  ladder.command_ended();
  ladder.tree_is_empty(false);

  EXPECT_EQ(ladder.next(start + seconds(3)), Action::send_kill);
}

TEST(Ladder, a_timeout_after_a_forwarded_sigterm_does_not_delay_sigkill) {
  auto plan = with_kill_after(seconds(4));
  plan.timeout = seconds(10);
  Ladder ladder(plan, start);
  ladder.forwarded(SIGTERM, start + seconds(8));

  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_term);
  EXPECT_EQ(ladder.next(start + seconds(12)), Action::send_kill);
}

// A lost lease

TEST(Ladder, a_command_that_lost_its_lock_is_sent_sigterm_at_once) {
  Ladder ladder(plan(), start);

  ladder.lease_lost(Loss::gone, start + seconds(1));

  EXPECT_EQ(ladder.next(start + seconds(1)), Action::send_term);
}

TEST(Ladder, a_command_that_lost_its_lock_has_one_second_to_exit) {
  Ladder ladder(plan(), start);
  ladder.lease_lost(Loss::gone, start);
  ladder.next(start);

  EXPECT_EQ(ladder.next_check(start), start + seconds(1));
  EXPECT_EQ(ladder.next(start + seconds(1)), Action::send_kill);
}

TEST(Ladder, a_command_that_lost_its_lock_has_at_most_kill_after_to_exit) {
  Ladder ladder(with_kill_after(milliseconds(200)), start);
  ladder.lease_lost(Loss::gone, start);
  ladder.next(start);

  EXPECT_EQ(ladder.next(start + milliseconds(200)), Action::send_kill);
}

TEST(Ladder, the_first_loss_counts) {
  Ladder ladder(plan(), start);
  ladder.lease_lost(Loss::taken_over, start);

  ladder.lease_lost(Loss::gone, start + seconds(1));

  EXPECT_EQ(ladder.lost(), Loss::taken_over);
}

TEST(Ladder, a_second_loss_does_not_delay_sigkill) {
  Ladder ladder(plan(), start);
  ladder.lease_lost(Loss::gone, start);
  ladder.next(start);

  ladder.lease_lost(Loss::gone, start + milliseconds(900));

  EXPECT_EQ(ladder.next(start + seconds(1)), Action::send_kill);
}

TEST(Ladder, a_loss_after_the_timeout_brings_sigkill_forward) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.next(start + seconds(10));

  ladder.lease_lost(Loss::gone, start + seconds(11));

  EXPECT_EQ(ladder.next_check(start + seconds(11)), start + seconds(12));
  EXPECT_EQ(ladder.next(start + seconds(12)), Action::send_kill);
}

TEST(Ladder, a_loss_is_not_a_timeout) {
  Ladder ladder(with_timeout(seconds(10)), start);
  ladder.lease_lost(Loss::gone, start + seconds(9));
  ladder.next(start + seconds(9));

  ladder.next(start + seconds(10));

  EXPECT_FALSE(ladder.timed_out());
}

TEST(Ladder, a_run_that_lost_its_lock_is_over_only_when_its_tree_is_empty) {
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

TEST(Ladder, the_tree_is_not_needed_while_the_command_runs) {
  EXPECT_FALSE(Ladder(with_stragglers(Stragglers::wait), start).needs_tree());
  EXPECT_FALSE(Ladder(with_stragglers(Stragglers::kill), start).needs_tree());
}

TEST(Ladder, stragglers_can_be_waited_for) {
  Ladder ladder(with_stragglers(Stragglers::wait), start);

  ladder.command_ended();

  EXPECT_TRUE(ladder.needs_tree());
  EXPECT_EQ(ladder.next(start + hours(1)), Action::wait);
}

TEST(Ladder, a_run_that_waits_for_stragglers_is_over_when_they_have_ended) {
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

  EXPECT_EQ(ladder.next_check(start), start + seconds(10));
  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_term);
  EXPECT_TRUE(ladder.timed_out());
}

TEST(Ladder, stragglers_can_be_stopped) {
  Ladder ladder(with_stragglers(Stragglers::kill), start);

  ladder.command_ended();

  EXPECT_TRUE(ladder.needs_tree());
  EXPECT_EQ(ladder.next(start), Action::send_term);
}

TEST(Ladder, stragglers_have_as_long_to_exit_as_a_command) {
  Ladder ladder(with_stragglers(Stragglers::kill), start);
  ladder.command_ended();
  ladder.next(start);

  EXPECT_EQ(ladder.next(start + seconds(5) - nanoseconds(1)), Action::wait);
  EXPECT_EQ(ladder.next(start + seconds(5)), Action::send_kill);
}

TEST(Ladder, a_run_without_stragglers_is_over_at_once) {
  Ladder ladder(with_stragglers(Stragglers::kill), start);
  ladder.command_ended();

  ladder.tree_is_empty(true);

  EXPECT_EQ(ladder.next(start), Action::done);
}

TEST(Ladder, a_run_whose_stragglers_are_being_stopped_no_longer_times_out) {
  auto plan = with_stragglers(Stragglers::kill);
  plan.timeout = seconds(10);
  Ladder ladder(plan, start);
  ladder.command_ended();
  ladder.next(start + seconds(9));

  ladder.next(start + seconds(10));

  EXPECT_FALSE(ladder.timed_out());
}

TEST(Ladder, stragglers_of_a_command_that_ended_in_time_do_not_time_out) {
  auto plan = with_stragglers(Stragglers::kill);
  plan.timeout = seconds(10);
  Ladder ladder(plan, start);
  ladder.command_ended();

  EXPECT_EQ(ladder.next(start + seconds(10)), Action::send_term);
  EXPECT_FALSE(ladder.timed_out());
}

TEST(Ladder, stragglers_that_are_waited_for_are_stopped_if_the_lock_is_lost) {
  Ladder ladder(with_stragglers(Stragglers::wait), start);
  ladder.command_ended();

  ladder.lease_lost(Loss::gone, start + seconds(1));

  EXPECT_EQ(ladder.next(start + seconds(1)), Action::send_term);
  EXPECT_EQ(ladder.next(start + seconds(2)), Action::send_kill);
}

TEST(Ladder, stragglers_that_are_waited_for_are_killed_after_a_forwarded_sigterm) {
  auto plan = with_kill_after(seconds(2));
  plan.stragglers = Stragglers::wait;
  Ladder ladder(plan, start);
  ladder.forwarded(SIGTERM, start);
  ladder.command_ended();

  EXPECT_EQ(ladder.next(start + seconds(2)), Action::send_kill);
}

// A lease that can expire: 30 s, so 5 s of grace and 1.5 s of margin

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

TEST(Ladder, a_command_is_left_alone_while_it_can_be_stopped_before_the_deadline) {
  auto ladder = leased();

  EXPECT_EQ(ladder.next(deadline - milliseconds(6501)), Action::wait);
  EXPECT_EQ(ladder.next_check(start), deadline - milliseconds(6500));
}

TEST(Ladder, a_command_whose_lease_is_not_renewed_is_stopped_in_time) {
  auto ladder = leased();

  EXPECT_EQ(ladder.next(deadline - milliseconds(6500)), Action::send_term);
  EXPECT_EQ(ladder.lost(), Loss::unconfirmed);
  EXPECT_EQ(ladder.next_check(deadline - milliseconds(6500)),
            deadline - milliseconds(1500));
  EXPECT_EQ(ladder.next(deadline - milliseconds(1500)), Action::send_kill);
}

TEST(Ladder, a_renewal_moves_the_deadline) {
  auto ladder = leased();

  ladder.lease_holds_until(deadline + seconds(10));

  EXPECT_EQ(ladder.next(deadline), Action::wait);
  EXPECT_FALSE(ladder.lost());
}

TEST(Ladder, a_late_renewal_does_not_save_a_run_that_is_being_stopped) {
  auto ladder = leased();
  ladder.next(deadline - milliseconds(6500));

  ladder.lease_holds_until(deadline + seconds(10));

  EXPECT_EQ(ladder.lost(), Loss::unconfirmed);
  EXPECT_EQ(ladder.next(deadline - milliseconds(1501)), Action::wait);
  EXPECT_EQ(ladder.next(deadline - milliseconds(1500)), Action::send_kill);
}

TEST(Ladder, after_a_suspend_beyond_the_lease_sigkill_is_sent_at_once) {
  auto ladder = leased();
  ASSERT_EQ(ladder.next(start), Action::wait);

  EXPECT_EQ(ladder.next(deadline + hours(8)), Action::send_kill);
  EXPECT_EQ(ladder.lost(), Loss::unconfirmed);
}

TEST(Ladder, with_only_the_margin_left_sigkill_is_sent_at_once) {
  auto ladder = leased();

  EXPECT_EQ(ladder.next(deadline - milliseconds(1500)), Action::send_kill);
}

TEST(Ladder, a_short_suspend_changes_nothing) {
  auto ladder = leased();

  EXPECT_EQ(ladder.next(deadline - milliseconds(6501)), Action::wait);
}

TEST(Ladder, a_suspend_changes_nothing_if_the_lease_never_expires) {
  Ladder ladder(with_lease(), start);
  ladder.lease_holds_until(Clock::time_point::max());

  EXPECT_EQ(ladder.next(start + hours(8)), Action::wait);
  EXPECT_EQ(ladder.next_check(start), Clock::time_point::max());
}

// dlock was killed, so the lease is not renewed

TEST(Ladder, a_run_is_stopped_within_a_second_after_dlock_was_killed) {
  auto ladder = leased();

  ladder.owner_gone(start);

  EXPECT_EQ(ladder.next(start), Action::send_term);
  EXPECT_EQ(ladder.next_check(start), start + milliseconds(700));
  EXPECT_EQ(ladder.next(start + milliseconds(700)), Action::send_kill);
}

TEST(Ladder, a_run_is_stopped_before_the_deadline_after_dlock_was_killed) {
  auto ladder = leased();
  const auto late = deadline - milliseconds(1600);

  ladder.owner_gone(late);

  EXPECT_EQ(ladder.next(late), Action::send_term);
  EXPECT_EQ(ladder.next(deadline - milliseconds(1500)), Action::send_kill);
}

TEST(Ladder, a_shorter_kill_after_applies_after_dlock_was_killed) {
  Ladder ladder(with_kill_after(milliseconds(100)), start);

  ladder.owner_gone(start);
  ladder.next(start);

  EXPECT_EQ(ladder.next(start + milliseconds(100)), Action::send_kill);
}

TEST(Ladder, stragglers_are_left_alone_after_dlock_was_killed) {
  auto ladder = leased();
  ladder.command_ended();

  ladder.owner_gone(start);

  EXPECT_EQ(ladder.next(start), Action::done);
}

TEST(Ladder, an_exit_that_is_noticed_after_the_deadline_counts_as_a_loss) {
  auto ladder = leased();

  ladder.command_ended();

  EXPECT_EQ(ladder.next(deadline + seconds(1)), Action::done);
  EXPECT_EQ(ladder.lost(), Loss::unconfirmed);
}

TEST(Ladder, a_command_whose_lease_is_certainly_lost_is_stopped_sooner) {
  auto ladder = leased();
  ladder.lease_lost(Loss::taken_over, start);

  EXPECT_EQ(ladder.next(start), Action::send_term);
  EXPECT_EQ(ladder.next(start + milliseconds(999)), Action::wait);
  EXPECT_EQ(ladder.next(start + seconds(1)), Action::send_kill);
}

TEST(Ladder, sigkill_after_a_timeout_comes_before_the_deadline) {
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
