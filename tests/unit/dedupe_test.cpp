// Which runs deduplicate a run that is about to start.

#include <gtest/gtest.h>

#include "lock/lease.hpp"

namespace dlock {
namespace {

using std::chrono::hours;

constexpr WallTime now{1'700'000'000'000'000};
constexpr WallTime moment{1};

RunInfo run_with(std::uint64_t fence, std::optional<int> exit_code) {
  RunInfo run;
  run.fence.number = fence;
  run.started = now;
  run.ended = now;
  run.exit_code = exit_code;
  return run;
}

// Windows

TEST(Windows, a_run_that_started_just_now_is_recent) {
  EXPECT_TRUE(is_recent(now, hours(1), now));
}

TEST(Windows, a_run_that_started_just_within_the_window_is_recent) {
  EXPECT_TRUE(is_recent(now - hours(1) + moment, hours(1), now));
}

TEST(Windows, a_run_that_started_exactly_one_window_ago_is_not_recent) {
  EXPECT_FALSE(is_recent(now - hours(1), hours(1), now));
}

TEST(Windows, a_run_from_before_the_window_is_not_recent) {
  EXPECT_FALSE(is_recent(now - hours(2), hours(1), now));
}

TEST(Windows, a_run_is_recent_after_the_clock_steps_back_by_less_than_a_window) {
  EXPECT_TRUE(is_recent(now + hours(1) - moment, hours(1), now));
}

TEST(Windows, a_run_is_not_recent_after_the_clock_steps_back_by_a_window_or_more) {
  EXPECT_FALSE(is_recent(now + hours(1), hours(1), now));
  EXPECT_FALSE(is_recent(now + hours(100'000), hours(1), now));
}

TEST(Windows, a_run_with_an_unknown_start_is_not_recent) {
  EXPECT_FALSE(is_recent(WallTime{}, hours(30 * 24), now));
}

// Verdicts

TEST(Verdicts, a_command_that_exits_with_0_has_succeeded) {
  EXPECT_EQ(verdict_on(0), Verdict::succeeded);
}

TEST(Verdicts, every_other_exit_code_is_a_failure) {
  for (const int code : {1, 75, 76, 124, 128, 255}) {
    EXPECT_EQ(verdict_on(code), Verdict::failed) << code;
  }
}

TEST(Verdicts, a_run_without_an_exit_code_is_a_failure) {
  EXPECT_EQ(verdict_on(std::nullopt), Verdict::failed);
}

TEST(Verdicts, a_command_that_could_not_be_started_is_not_a_run) {
  for (const int code : {125, 126, 127}) {
    EXPECT_EQ(verdict_on(code), Verdict::no_run) << code;
  }
}

// Past runs

TEST(PastRuns, the_last_run_counts_however_it_ended) {
  PastRuns past;
  past.note(run_with(1, 0));
  past.note(run_with(2, 3));

  const auto* run = past.counting_for({hours(1), false}, now);

  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->fence.number, 2u);
}

TEST(PastRuns, with_retry_failed_the_last_success_counts) {
  PastRuns past;
  past.note(run_with(1, 0));
  past.note(run_with(2, 0));
  past.note(run_with(3, std::nullopt));

  const auto* run = past.counting_for({hours(1), true}, now);

  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->fence.number, 2u);
}

TEST(PastRuns, with_retry_failed_nothing_counts_without_a_success) {
  PastRuns past;
  past.note(run_with(1, 1));

  EXPECT_EQ(past.counting_for({hours(1), true}, now), nullptr);
}

TEST(PastRuns, a_command_that_was_not_started_does_not_count) {
  PastRuns past;
  past.note(run_with(1, 127));

  EXPECT_EQ(past.counting_for({hours(1), false}, now), nullptr);
}

TEST(PastRuns, a_command_that_was_not_started_does_not_replace_a_run) {
  PastRuns past;
  past.note(run_with(1, 0));
  past.note(run_with(2, 126));

  EXPECT_EQ(past.counting_for({hours(1), false}, now)->fence.number, 1u);
}

TEST(PastRuns, a_run_without_an_end_does_not_count_and_does_not_replace_a_run) {
  PastRuns past;
  auto vanished = run_with(3, std::nullopt);
  vanished.ended.reset();
  past.note(run_with(1, 0));
  past.note(run_with(2, 3));
  past.note(vanished);

  EXPECT_EQ(past.counting_for({hours(1), false}, now)->fence.number, 2u);
}

TEST(PastRuns, the_last_success_counts_if_an_earlier_version_recorded_no_end) {
  PastRuns past;
  past.note(run_with(1, 0));
  past.last = run_with(2, std::nullopt);
  past.last->ended.reset();

  EXPECT_EQ(past.counting_for({hours(1), false}, now)->fence.number, 1u);
}

TEST(PastRuns, an_earlier_run_that_is_recorded_late_does_not_replace_a_later_one) {
  PastRuns past;
  past.note(run_with(2, 0));
  past.note(run_with(1, 0));

  EXPECT_EQ(past.counting_for({hours(1), false}, now)->fence.number, 2u);
}

TEST(PastRuns, no_run_counts_after_the_window) {
  PastRuns past;
  past.note(run_with(1, 0));

  EXPECT_EQ(past.counting_for({hours(1), false}, now + hours(1)), nullptr);
}

}  // namespace
}  // namespace dlock
