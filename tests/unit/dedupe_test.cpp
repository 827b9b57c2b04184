// Which runs deduplicate a run that is about to start.

#include <gtest/gtest.h>

#include <vector>

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

TEST(Windows, have_only_runs_that_started_within_them_also_if_the_clock_stepped_back) {
  const struct {
    WallTime started;
    milliseconds window;
    bool is_recent;
  } runs[] = {{now, hours(1), true},
              {now - hours(1) + moment, hours(1), true},
              {now - hours(1), hours(1), false},
              {now - hours(2), hours(1), false},
              {now + hours(1) - moment, hours(1), true},
              {now + hours(1), hours(1), false},
              {now + hours(100'000), hours(1), false},
              {WallTime{}, hours(30 * 24), false}};  // unknown
  for (const auto& run : runs) {
    EXPECT_EQ(is_recent(run.started, run.window, now), run.is_recent)
        << run.started.count();
  }
}

TEST(Verdicts, tell_success_failure_and_what_was_not_started) {
  EXPECT_EQ(verdict_on(0), Verdict::succeeded);
  for (const int code : {1, 75, 76, 124, 128, 255}) {
    EXPECT_EQ(verdict_on(code), Verdict::failed) << code;
  }
  EXPECT_EQ(verdict_on(std::nullopt), Verdict::failed);
  for (const int code : {125, 126, 127}) {
    EXPECT_EQ(verdict_on(code), Verdict::no_run) << code;
  }
}

// The fence of the run that counts; 0: none.
std::uint64_t counting(const PastRuns& past, bool retry_failed = false,
                       WallTime at = now) {
  const auto* run = past.counting_for({hours(1), retry_failed}, at);
  return run == nullptr ? 0 : run->fence.number;
}

TEST(PastRuns, count_by_how_the_last_ones_ended) {
  constexpr auto by_signal = std::nullopt;
  using Codes = std::vector<std::optional<int>>;
  const struct {
    Codes codes;  // of runs with the fences 1, 2, ...
    std::uint64_t counts;
    std::uint64_t counts_as_success;
  } rows[] = {{{0, 3}, 2, 1},
              {{0, 0, by_signal}, 3, 2},
              {{1}, 1, 0},
              // A command that was not started is no run.
              {{127}, 0, 0},
              {{0, 126}, 1, 1}};
  for (const auto& row : rows) {
    PastRuns past;
    std::uint64_t fence = 0;
    for (const auto& code : row.codes) past.note(run_with(++fence, code));
    EXPECT_EQ(counting(past), row.counts);
    EXPECT_EQ(counting(past, true), row.counts_as_success);
    EXPECT_EQ(counting(past, false, now + hours(1)), 0u);
  }
}

TEST(PastRuns, a_run_without_an_end_does_not_count_and_does_not_replace_a_run) {
  PastRuns past;
  auto vanished = run_with(3, std::nullopt);
  vanished.ended.reset();
  past.note(run_with(1, 0));
  past.note(run_with(2, 3));
  past.note(vanished);

  EXPECT_EQ(counting(past), 2u);
  past.last = vanished;  // as an earlier version recorded it
  EXPECT_EQ(counting(past), 1u);
}

TEST(PastRuns, an_earlier_run_that_is_recorded_late_does_not_replace_a_later_one) {
  PastRuns past;
  past.note(run_with(2, 0));
  past.note(run_with(1, 0));

  EXPECT_EQ(counting(past), 2u);
}

}  // namespace
}  // namespace dlock
