// Records of runs: what is added can be read, no more than is kept, and damage shows.

#include "store/local/run_records.hpp"

#include <gtest/gtest.h>

#include "lock/history.hpp"

namespace dlock::local {
namespace {

using namespace std::chrono_literals;

RunInfo run_with_fence(std::uint64_t fence) {
  RunInfo run;
  run.fence.number = fence;
  run.started = 1'700'000'000s;
  run.ended = 1'700'000'003s;
  run.duration = 3000ms;
  run.signal = "TERM";
  run.host = "web1";
  run.outcome = "ran";
  return run;
}

std::string records_of(std::uint64_t fences) {
  std::string records;
  for (std::uint64_t fence = 1; fence <= fences; ++fence) {
    records = with_run(records, run_with_fence(fence));
  }
  return records;
}

TEST(RunRecords, there_are_none_in_no_bytes) {
  EXPECT_TRUE(runs_from("").value().empty());
}

TEST(RunRecords, a_run_is_read_as_it_was_added) {
  const auto run = run_with_fence(7);

  const auto runs = runs_from(with_run("", run)).value();

  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].fence, run.fence);
  EXPECT_EQ(runs[0].started, run.started);
  EXPECT_EQ(runs[0].ended, run.ended);
  EXPECT_EQ(runs[0].duration, run.duration);
  EXPECT_EQ(runs[0].exit_code, run.exit_code);
  EXPECT_EQ(runs[0].signal, run.signal);
  EXPECT_EQ(runs[0].host, run.host);
  EXPECT_EQ(runs[0].outcome, run.outcome);
}

TEST(RunRecords, the_last_that_was_added_comes_first) {
  const auto runs = runs_from(records_of(2)).value();

  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].fence.number, 2u);
  EXPECT_EQ(runs[1].fence.number, 1u);
}

TEST(RunRecords, no_more_are_kept_than_the_last_twenty) {
  const auto runs = runs_from(records_of(50)).value();

  ASSERT_EQ(runs.size(), 20u);
  EXPECT_EQ(runs.front().fence.number, 50u);
  EXPECT_EQ(runs.back().fence.number, 31u);
}

TEST(RunRecords, any_byte_that_is_changed_shows) {
  const auto records = records_of(2);

  for (std::size_t at = 0; at < records.size(); ++at) {
    auto damaged = records;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    EXPECT_FALSE(runs_from(damaged)) << at;
  }
}

TEST(RunRecords, a_cut_shows) {
  const auto records = records_of(1);

  for (std::size_t size = 1; size < records.size(); ++size) {
    EXPECT_FALSE(runs_from(records.substr(0, size))) << size;
  }
}

TEST(RunRecords, a_run_can_be_added_to_what_is_cut) {
  const auto records = records_of(2);

  const auto added = with_run(records.substr(0, records.size() - 1), run_with_fence(3));

  const auto runs = runs_from(added).value();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].fence.number, 3u);
  EXPECT_EQ(runs[1].fence.number, 2u);
}

}  // namespace
}  // namespace dlock::local
