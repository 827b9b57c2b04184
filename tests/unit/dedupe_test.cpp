// Which runs count as one that is about to start.

#include "lock/dedupe.hpp"

#include <gtest/gtest.h>

namespace dlock {
namespace {

using std::chrono::hours;

constexpr WallTime now{1'700'000'000'000'000};
constexpr WallTime moment{1};

RunInfo run_with(std::uint64_t fence, std::optional<int> exit_code) {
  RunInfo run;
  run.fence.number = fence;
  run.started = now;
  run.exit_code = exit_code;
  return run;
}

// Windows

TEST(Windows, a_run_that_started_just_now_is_recent) {
  EXPECT_TRUE(is_recent(now, hours(1), now));
}

TEST(Windows, a_run_that_started_a_moment_less_than_the_window_ago_is_recent) {
  EXPECT_TRUE(is_recent(now - hours(1) + moment, hours(1), now));
}

TEST(Windows, a_run_that_started_exactly_the_window_ago_is_not_recent) {
  EXPECT_FALSE(is_recent(now - hours(1), hours(1), now));
}

TEST(Windows, a_run_from_before_the_window_is_not_recent) {
  EXPECT_FALSE(is_recent(now - hours(2), hours(1), now));
}

TEST(Windows, after_a_small_step_back_of_the_clock_a_run_is_recent) {
  EXPECT_TRUE(is_recent(now + hours(1) - moment, hours(1), now));
}

TEST(Windows, after_a_step_back_of_a_window_or_more_a_run_is_not_recent) {
  EXPECT_FALSE(is_recent(now + hours(1), hours(1), now));
  EXPECT_FALSE(is_recent(now + hours(100'000), hours(1), now));
}

TEST(Windows, a_run_of_whose_start_nothing_is_known_is_not_recent) {
  EXPECT_FALSE(is_recent(WallTime{}, hours(30 * 24), now));
}

// Verdicts

TEST(Verdicts, a_command_that_exits_with_0_has_succeeded) {
  EXPECT_EQ(verdict_on(0), Verdict::succeeded);
}

TEST(Verdicts, every_other_end_is_a_failure) {
  for (const int code : {1, 75, 76, 124, 128, 255}) {
    EXPECT_EQ(verdict_on(code), Verdict::failed) << code;
  }
}

TEST(Verdicts, an_end_by_a_signal_or_without_a_word_is_a_failure) {
  EXPECT_EQ(verdict_on(std::nullopt), Verdict::failed);
}

TEST(Verdicts, a_command_that_could_not_be_started_is_no_run) {
  for (const int code : {125, 126, 127}) {
    EXPECT_EQ(verdict_on(code), Verdict::no_run) << code;
  }
}

// Past runs

TEST(PastRuns, the_last_one_counts_however_it_ended) {
  PastRuns past;
  past.note(run_with(1, 0));
  past.note(run_with(2, 3));

  const auto* run = past.counting_for({hours(1), false}, now);

  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->fence.number, 2u);
}

TEST(PastRuns, the_last_success_counts_where_failures_do_not) {
  PastRuns past;
  past.note(run_with(1, 0));
  past.note(run_with(2, 0));
  past.note(run_with(3, std::nullopt));

  const auto* run = past.counting_for({hours(1), true}, now);

  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->fence.number, 2u);
}

TEST(PastRuns, where_there_was_no_success_none_counts) {
  PastRuns past;
  past.note(run_with(1, 1));

  EXPECT_EQ(past.counting_for({hours(1), true}, now), nullptr);
}

TEST(PastRuns, what_was_no_run_does_not_count) {
  PastRuns past;
  past.note(run_with(1, 127));

  EXPECT_EQ(past.counting_for({hours(1), false}, now), nullptr);
}

TEST(PastRuns, what_was_no_run_does_not_take_the_place_of_one) {
  PastRuns past;
  past.note(run_with(1, 0));
  past.note(run_with(2, 126));

  EXPECT_EQ(past.counting_for({hours(1), false}, now)->fence.number, 1u);
}

TEST(PastRuns, an_earlier_run_that_is_noted_late_does_not_take_the_place_of_a_later_one) {
  PastRuns past;
  past.note(run_with(2, 0));
  past.note(run_with(1, 0));

  EXPECT_EQ(past.counting_for({hours(1), false}, now)->fence.number, 2u);
}

TEST(PastRuns, none_counts_when_the_window_is_over) {
  PastRuns past;
  past.note(run_with(1, 0));

  EXPECT_EQ(past.counting_for({hours(1), false}, now + hours(1)), nullptr);
}

}  // namespace
}  // namespace dlock
