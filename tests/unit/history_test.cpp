// Which runs the history lists, and in which order.

#include "lock/history.hpp"

#include <gtest/gtest.h>

namespace dlock {
namespace {

using namespace std::chrono_literals;
using Fences = std::vector<std::uint64_t>;

constexpr WallTime now = 1'700'000'000s;

RunInfo run_with(std::uint64_t fence, WallTime started, WallTime ended) {
  RunInfo run;
  run.fence.number = fence;
  run.started = started;
  run.ended = ended;
  run.outcome = "ran";
  return run;
}

RunInfo without_end(std::uint64_t fence, WallTime started, const char* outcome) {
  auto run = run_with(fence, started, now);
  run.ended.reset();
  run.outcome = outcome;
  return run;
}

Fences fences_of(const std::vector<RunInfo>& runs) {
  Fences fences;
  for (const auto& run : runs) fences.push_back(run.fence.number);
  return fences;
}

HolderInfo held_by_web1() {
  HolderInfo holder;
  holder.fence.number = 42;
  holder.host = "web1";
  holder.since = now - 192s;
  holder.held = 192s;
  return holder;
}

TEST(History, runs_of_the_last_30_days_are_sorted_by_their_start_newest_first) {
  const auto old = now - run_retention;
  const std::pair<std::vector<RunInfo>, Fences> histories[] = {
      {{run_with(1, now - 9s, now - 1s), run_with(3, now - 3s, now - 2s),
        run_with(2, now - 5s, now - 4s)},
       {3, 2, 1}},
      {{run_with(1, now - 9s, now), run_with(2, now - 9s, now)}, {2, 1}},
      {{run_with(1, old - 2s, old - 1s), run_with(2, old - 2s, old + 1s)}, {2}},
      // The age of a vanished run counts from its start; one in progress has none.
      {{without_end(1, old - 1s, "vanished"), without_end(2, old + 1s, "vanished")}, {2}},
      {{without_end(1, now - 2400h, "running")}, {1}}};
  for (const auto& [runs, listed] : histories) {
    EXPECT_EQ(fences_of(as_history(runs, now)), listed);
  }
}

TEST(History, a_run_that_occurs_twice_is_listed_once) {
  const auto runs = as_history(
      {without_end(1, now - 9s, "running"), run_with(1, now - 9s, now - 1s)}, now);

  ASSERT_EQ(fences_of(runs), Fences{1});
  EXPECT_EQ(runs[0].outcome, "running");
}

TEST(KeptHistory, the_last_20_runs_are_kept_with_at_most_10_by_hand) {
  std::vector<RunInfo> runs;
  add_to_history(runs, run_with(1, now, now));
  for (std::uint64_t fence = 2; fence <= 15; ++fence) {
    auto run = run_with(fence, now, now);
    run.outcome = by_hand;
    add_to_history(runs, run);
  }
  EXPECT_EQ(fences_of(runs), (Fences{15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 1}));

  for (std::uint64_t fence = 16; fence <= 35; ++fence) {
    add_to_history(runs, run_with(fence, now, now));
  }
  EXPECT_EQ(runs.size(), runs_kept);
  EXPECT_EQ(runs.back().fence.number, 16u);
}

TEST(LastSuccess, is_the_last_run_that_exited_with_0_and_was_not_lost) {
  auto good = run_with(1, now - 9s, now - 8s);
  good.exit_code = 0;
  auto better = run_with(2, now - 7s, now - 6s);
  better.exit_code = 0;
  auto bad = run_with(3, now - 5s, now - 4s);
  bad.exit_code = 3;
  auto lost = run_with(4, now - 3s, now - 2s);
  lost.exit_code = 0;
  lost.outcome = "lost";
  lost.reason = "gone";

  EXPECT_FALSE(last_success_of({bad, lost}, {}));
  EXPECT_EQ(last_success_of({lost, bad, better, good}, {})->fence.number, 2u);
  EXPECT_EQ(last_success_of({bad}, good)->fence.number, 1u);
  EXPECT_EQ(last_success_of({good}, better)->fence.number, 2u);
}

TEST(HistoryOfHolders, a_holder_is_a_run_in_progress) {
  const auto run = run_of(held_by_web1());

  ASSERT_TRUE(run);
  EXPECT_EQ(run->fence.number, 42u);
  EXPECT_EQ(run->started, now - 192s);
  EXPECT_EQ(run->duration, 192s);
  EXPECT_EQ(run->host, "web1");
  EXPECT_EQ(run->outcome, "running");
  EXPECT_FALSE(run->ended);
}

TEST(History, who_took_the_lock_from_a_run_is_read_from_the_reason) {
  const std::vector<std::pair<Taker, std::string>> takers{
      {{"eve@corp", "web9", false, true}, "broken by force by eve@corp@web9"},
      {{"eve@corp", "web9", false, false}, "broken by eve@corp@web9"},
      {{"eve", "web9", true, false}, "replaced by eve@web9"}};
  for (const auto& [taker, reason] : takers) {
    RunInfo run;
    run.reason = taken_reason(taker);

    EXPECT_EQ(run.reason, reason);
    EXPECT_EQ(taker_of(run), taker);
    EXPECT_EQ(forced_by(run).has_value(), taker.forced) << reason;
  }
}

TEST(History, another_reason_names_no_one) {
  for (const auto* reason : {"", "broken", "broken by", "gone"}) {
    RunInfo run;
    run.reason = reason;
    EXPECT_FALSE(taker_of(run)) << reason;
  }
}

TEST(HistoryOfHolders, a_detached_holder_is_a_lease_by_hand_in_progress) {
  auto detached = held_by_web1();
  detached.attached = false;

  const auto run = run_of(detached);

  ASSERT_TRUE(run);
  EXPECT_TRUE(is_by_hand(*run));
  EXPECT_TRUE(is_running(*run));
  EXPECT_EQ(as_history({*run}, now + 2400h).size(), 1u);
}

TEST(HistoryOfHolders, foreign_holders_and_ended_runs_are_left_out) {
  auto foreign = held_by_web1();
  foreign.foreign = true;
  auto ended = held_by_web1();
  ended.run_ended = true;

  EXPECT_FALSE(run_of(foreign));
  EXPECT_FALSE(run_of(ended));
}

}  // namespace
}  // namespace dlock
