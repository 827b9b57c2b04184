#include <gtest/gtest.h>

#include "lock/history.hpp"
#include "store/redis_quorum/merge.hpp"

namespace dlock::redis_quorum {
namespace {

using std::chrono::seconds;

HolderInfo holder(std::uint64_t fence) {
  HolderInfo info;
  info.fence.number = fence;
  info.expires_in = seconds(5);
  return info;
}

WaiterInfo waiter(pid_t pid) {
  WaiterInfo info;
  info.host = "web1";
  info.pid = pid;
  return info;
}

RunInfo run(std::uint64_t fence, const std::string& outcome) {
  RunInfo info;
  info.fence.number = fence;
  info.started = seconds(fence);
  info.outcome = outcome;
  return info;
}

LockInfo held_by(std::vector<HolderInfo> holders) {
  LockInfo lock;
  lock.lock = {"dlock", "job"};
  lock.holders = std::move(holders);
  lock.free = lock.holders.empty() ? 1 : 0;
  return lock;
}

TEST(QuorumMerge, a_claim_with_a_majority_holds_the_lock) {
  const auto lock = merged({held_by({holder(5)}), held_by({holder(5)}), held_by({})}, 3);

  ASSERT_EQ(lock.holders.size(), 1u);
  EXPECT_EQ(lock.holders[0].fence.number, 5u);
  EXPECT_EQ(lock.free, 0u);
  EXPECT_EQ(lock.strength, 0);
}

TEST(QuorumMerge, a_claim_with_a_single_vote_holds_nothing) {
  const auto lock = merged({held_by({holder(5)}), held_by({}), held_by({})}, 3);

  EXPECT_TRUE(lock.holders.empty());
  EXPECT_EQ(lock.free, 1u);
  EXPECT_FALSE(lock.strength);
}

TEST(QuorumMerge, a_holder_that_may_have_a_majority_with_a_silent_server_is_shown) {
  EXPECT_EQ(merged({held_by({holder(5)}), held_by({})}, 3).holders.size(), 1u);
}

TEST(QuorumMerge, two_holders_with_the_same_fence_are_not_counted_as_one) {
  auto here = holder(5);
  here.pid = 1;
  auto there = holder(5);
  there.pid = 2;

  EXPECT_TRUE(
      merged({held_by({here}), held_by({there}), held_by({})}, 3).holders.empty());
}

TEST(QuorumMerge, runs_of_two_hosts_with_the_same_fence_are_two_runs) {
  auto here = run(5, "succeeded");
  here.host = "web1";
  auto there = run(5, "failed");
  there.host = "web2";

  EXPECT_EQ(merged_runs({{here}, {here, there}, {there}}, 3).size(), 2u);
}

TEST(QuorumMerge, a_lease_expires_when_it_expires_on_the_first_server) {
  auto sooner = holder(5);
  sooner.expires_in = seconds(3);

  const auto lock = merged({held_by({holder(5)}), held_by({sooner})}, 3);

  EXPECT_EQ(lock.holders.at(0).expires_in, seconds(3));
}

TEST(QuorumMerge, waiters_have_the_order_of_the_longest_queue_and_appear_once) {
  auto one = held_by({holder(5)});
  one.waiters = {waiter(2)};
  auto other = one;
  other.waiters = {waiter(1), waiter(2), waiter(3)};

  const auto lock = merged({one, other, other}, 3);

  ASSERT_EQ(lock.waiters.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lock.waiters[i].pid, static_cast<pid_t>(i + 1));
  }
}

TEST(QuorumMerge, waiters_and_numbers_that_a_single_server_reports_are_not_shown) {
  auto liar = held_by({});
  liar.waiters = {waiter(1)};
  liar.known = true;
  liar.refused = 1'000'000;
  liar.last_success = run(7, "ran");
  liar.now = WallTime(std::chrono::hours(24 * 365 * 200));

  const auto lock = merged({liar, held_by({}), held_by({})}, 3);

  EXPECT_TRUE(lock.waiters.empty());
  EXPECT_FALSE(lock.known);
  EXPECT_EQ(lock.refused, 0u);
  EXPECT_FALSE(lock.last_success);
  EXPECT_EQ(lock.now, WallTime{});
  EXPECT_FALSE(merged({liar, held_by({})}, 3).last_success);
  EXPECT_TRUE(merged({liar, liar}, 3).last_success);
}

TEST(QuorumMerge, a_break_that_most_holders_do_not_know_is_not_shown) {
  auto broken = holder(5);
  broken.broken = true;
  const auto is_broken = [](const std::vector<LockInfo>& told) {
    return merged(told, 3).holders.at(0).broken;
  };

  EXPECT_FALSE(
      is_broken({held_by({broken}), held_by({holder(5)}), held_by({holder(5)})}));
  EXPECT_TRUE(is_broken({held_by({broken}), held_by({broken}), held_by({holder(5)})}));
  EXPECT_TRUE(is_broken({held_by({broken}), held_by({holder(5)}), held_by({})}));
}

TEST(QuorumMerge, of_different_ends_of_a_run_the_one_that_most_recorded_counts) {
  auto failed = run(7, "ran");
  failed.exit_code = 1;
  auto good = run(7, "ran");
  good.exit_code = 0;

  EXPECT_EQ(merged_runs({{good}, {failed}, {failed}}, 3).at(0).exit_code, 1);
  EXPECT_EQ(
      merged_runs({{good}, {run(7, "vanished")}, {run(7, "vanished")}}, 3).at(0).outcome,
      "vanished");
}

TEST(QuorumMerge, a_run_that_a_single_server_reports_is_not_shown) {
  EXPECT_TRUE(merged_runs({{run(7, "ran")}, {}, {}}, 3).empty());
  EXPECT_EQ(merged_runs({{run(7, "ran")}, {}}, 3).size(), 1u);
}

TEST(QuorumMerge, an_end_that_one_server_recorded_counts_if_others_know_the_run) {
  const auto runs = merged_runs({{run(7, "ran")}, {run(7, "vanished")}, {}}, 3);

  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].outcome, "ran");
}

TEST(QuorumMerge, a_run_without_a_recorded_end_is_shown_only_if_a_majority_may_know_it) {
  for (const auto* outcome : {"running", "vanished", by_hand}) {
    const std::vector<RunInfo> told{run(7, outcome)};
    EXPECT_TRUE(merged_runs({told, {}, {}}, 3).empty()) << outcome;
    EXPECT_EQ(merged_runs({told, told, {}}, 3).size(), 1u) << outcome;
    EXPECT_EQ(merged_runs({told, {}}, 3).size(), 1u) << outcome;
  }
}

TEST(QuorumMerge, the_newest_run_comes_first) {
  const std::vector<RunInfo> told{run(7, "ran"), run(9, "ran"), run(8, "ran")};
  const auto runs = merged_runs({told, told, told}, 3);

  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].fence.number, 9u);
  EXPECT_EQ(runs[2].fence.number, 7u);
}

// Events

Event event(Event::Kind kind, std::uint64_t fence) {
  Event one;
  one.kind = kind;
  one.lock = {"dlock", "job"};
  one.fence.number = fence;
  return one;
}

const auto merge_start = Clock::time_point(seconds(100));

TEST(QuorumEvents, are_reported_once_when_a_majority_has_reported_them) {
  EventCount count(3);
  const auto granted = event(Event::Kind::granted, 5);

  EXPECT_FALSE(count.take(0, granted, merge_start));
  EXPECT_TRUE(count.take(2, granted, merge_start));
  EXPECT_FALSE(count.take(1, granted, merge_start));
}

TEST(QuorumEvents, of_a_single_server_are_not_reported) {
  EventCount count(3);

  EXPECT_FALSE(count.take(0, event(Event::Kind::granted, 5), merge_start));
  EXPECT_FALSE(count.take(1, event(Event::Kind::granted, 6), merge_start));
  EXPECT_FALSE(count.take(0, event(Event::Kind::released, 5), merge_start));
}

TEST(QuorumEvents, are_reported_in_time_though_a_server_begins_late) {
  EventCount count(3);
  const auto queued = event(Event::Kind::queued, 0);

  EXPECT_FALSE(count.take(0, queued, merge_start));
  count.begin_anew(2);
  EXPECT_TRUE(count.take(1, queued, merge_start));
}

TEST(QuorumEvents, that_a_server_has_missed_do_not_keep_it_from_being_counted_again) {
  EventCount count(3);
  const auto queued = event(Event::Kind::queued, 0);
  count.take(0, queued, merge_start);
  count.take(1, queued, merge_start);
  count.begin_anew(2);

  EXPECT_FALSE(count.take(0, queued, merge_start));
  EXPECT_TRUE(count.take(2, queued, merge_start));
}

TEST(QuorumEvents, that_happen_again_are_reported_again) {
  EventCount count(3);
  const auto queued = event(Event::Kind::queued, 0);
  count.take(0, queued, merge_start);
  count.take(1, queued, merge_start);

  EXPECT_FALSE(count.take(0, queued, merge_start));
  EXPECT_TRUE(count.take(1, queued, merge_start));
}

}  // namespace
}  // namespace dlock::redis_quorum
