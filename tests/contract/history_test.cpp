// The history of a lock in every store.

#include "lock/history.hpp"

#include <gtest/gtest.h>

#include <list>
#include <string>
#include <vector>

#include "tests/contract/contender.hpp"
#include "tests/contract/ended_process.hpp"
#include "tests/run_end.hpp"

namespace dlock {
namespace {

class Histories : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& contender(const std::string& name = "job") {
    return contenders_.emplace_back(context_, *world_, claim_of(name));
  }

  // As if its process had been killed.
  void kill(Contender& contender) {
    contenders_.remove_if([&](const Contender& c) { return &c == &contender; });
  }

  Fence ran(int code, const std::string& name = "job") {
    auto& runner = contender(name);
    const auto fence = runner.granted().fence;
    runner.release(exit_with(code));
    kill(runner);
    return fence;
  }

  // Where leases expire, its lease expires soon.
  Fence vanished() {
    auto& runner = contender();
    runner.claim.ttl = milliseconds(500);
    const auto fence = runner.granted().fence;
    runner.start(ended_process());
    kill(runner);
    return fence;
  }

  void break_lease(Fence fence) {
    auto& breaker = contender();
    const auto broken = [&]() -> asio::awaitable<Nothing> {
      const Break order{{fence}};
      co_await breaker.store->break_leases(breaker.claim.lock, order, breaker.wakeup);
      co_return Nothing{};
    };
    result_of(context_, broken());
  }

  std::vector<RunInfo> history() { return contender().history(); }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
};

INSTANTIATE_TEST_SUITE_P(stores, Histories, ::testing::ValuesIn(kinds), name_of);

TEST_P(Histories, an_unused_lock_has_no_runs) { EXPECT_TRUE(history().empty()); }

TEST_P(Histories, an_ended_run_is_listed_with_its_end) {
  const auto before = wall_now();
  auto& runner = contender();
  const auto fence = runner.granted().fence;
  auto end = exit_with(3);
  end.outcome = "timeout";
  runner.release(end);

  const auto runs = history();

  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].fence, fence);
  EXPECT_EQ(runs[0].exit_code, 3);
  EXPECT_EQ(runs[0].signal, std::nullopt);
  EXPECT_EQ(runs[0].duration, milliseconds(1500));
  EXPECT_EQ(runs[0].outcome, "timeout");
  EXPECT_FALSE(runs[0].host.empty());
  EXPECT_GE(runs[0].started, before);
  EXPECT_GE(runs[0].ended, runs[0].started);
}

TEST_P(Histories, a_run_that_a_signal_ended_is_listed_with_the_signal) {
  auto& runner = contender();
  runner.granted();
  RunEnd end;
  end.signal = "TERM";
  end.outcome = "ran";
  runner.release(end);

  const auto runs = history();

  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].signal, "TERM");
  EXPECT_EQ(runs[0].exit_code, std::nullopt);
}

TEST_P(Histories, a_run_keeps_its_label_and_calendar_period) {
  auto& runner = contender();
  runner.claim.label = "nightly";
  runner.claim.period = "day@UTC 2026-11-27T00:00:00.000Z";
  runner.granted();
  auto& waiter = contender();
  waiter.claim.label = "next";
  waiter.queued();

  const auto waiters = contender().inspect().waiters;
  EXPECT_EQ(history().at(0).label, "nightly");
  // The local store has it from the line that a run writes at its start.
  if (runner.store->leases_expire()) {
    EXPECT_EQ(history().at(0).period, runner.claim.period);
  }
  runner.release(exit_with(0));
  EXPECT_EQ(history().back().label, "nightly");
  EXPECT_EQ(history().back().period, runner.claim.period);
  waiter.granted();
  const auto runs = history();
  EXPECT_EQ(runs.at(0).label, "next");
  EXPECT_EQ(runs.at(0).period, "");
  EXPECT_EQ(runs.at(1).label, "nightly");
  ASSERT_EQ(waiters.size(), 1u);
  EXPECT_EQ(waiters[0].label, "next");
}

TEST_P(Histories, a_run_in_progress_is_listed_as_running) {
  const auto fence = contender().granted().fence;

  const auto runs = history();

  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].fence, fence);
  EXPECT_EQ(runs[0].outcome, "running");
  EXPECT_EQ(runs[0].ended, std::nullopt);
  EXPECT_TRUE(runs[0].duration);
}

TEST_P(Histories,
       a_run_whose_process_is_gone_is_listed_as_vanished_before_that_is_recorded) {
  const auto fence = vanished();

  ASSERT_TRUE(eventually(context_, [&] {
    const auto runs = history();
    return runs.size() == 1 && runs[0].outcome == "vanished";
  }));
  const auto runs = history();
  EXPECT_EQ(runs[0].fence, fence);
  EXPECT_EQ(runs[0].ended, std::nullopt);
  EXPECT_EQ(runs[0].duration, std::nullopt);
}

TEST_P(Histories, a_vanished_run_is_still_listed_after_the_next_run) {
  const auto lost = vanished();
  ASSERT_TRUE(
      eventually(context_, [&] { return contender().inspect().holders.empty(); }));
  const auto next = ran(0);

  const auto runs = history();

  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].fence, next);
  EXPECT_EQ(runs[0].outcome, "ran");
  EXPECT_EQ(runs[1].fence, lost);
  EXPECT_EQ(runs[1].outcome, "vanished");
}

TEST_P(Histories, the_newest_run_comes_first) {
  ran(1);
  ran(2);
  contender().granted();

  const auto runs = history();

  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].outcome, "running");
  EXPECT_EQ(runs[1].exit_code, 2);
  EXPECT_EQ(runs[2].exit_code, 1);
}

TEST_P(Histories, the_last_20_ended_runs_are_kept) {
  for (int code = 1; code <= 25; ++code) ran(code);

  const auto runs = history();

  ASSERT_EQ(runs.size(), 20u);
  EXPECT_EQ(runs.front().exit_code, 25);
  EXPECT_EQ(runs.back().exit_code, 6);
}

TEST_P(Histories, each_lock_has_its_own_history) {
  const auto fence = ran(1);
  ran(2, "other");

  const auto runs = history();

  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].fence, fence);
}

TEST_P(Histories, shared_runs_and_runs_in_slots_are_listed) {
  auto& reader = contender();
  reader.claim.mode = Mode::shared;
  reader.granted();
  auto& other = contender();
  other.claim.mode = Mode::shared;
  other.granted();
  EXPECT_EQ(history().size(), 2u);
  reader.release(exit_with(1));
  ASSERT_EQ(history().size(), 2u);
  EXPECT_EQ(history()[0].outcome == "running", history()[1].outcome == "ran");
  other.release(exit_with(2));
  auto& in_slot = contender();
  in_slot.claim.slots = 3;
  in_slot.granted();
  in_slot.release(exit_with(3));

  const auto runs = history();

  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].exit_code, 3);
  EXPECT_EQ(runs[1].exit_code, 2);
  EXPECT_EQ(runs[2].exit_code, 1);
}

TEST_P(Histories, a_detached_grant_is_listed_as_by_hand_while_it_is_held_and_afterwards) {
  auto& detached = contender();
  detached.claim.attached = false;
  detached.granted();

  ASSERT_EQ(history().size(), 1u);
  EXPECT_EQ(history()[0].outcome, "by hand");
  EXPECT_FALSE(history()[0].ended);
  EXPECT_TRUE(history()[0].duration);
  detached.release();
  ASSERT_EQ(history().size(), 1u);
  EXPECT_EQ(history()[0].outcome, "by hand");
  EXPECT_TRUE(history()[0].ended);
}

TEST_P(Histories, a_detached_grant_is_not_the_last_run) {
  ran(3);
  auto& detached = contender();
  detached.claim.attached = false;
  detached.granted();
  detached.release();

  const auto info = contender().inspect();

  ASSERT_TRUE(info.last_run);
  EXPECT_EQ(info.last_run->exit_code, 3);
  EXPECT_FALSE(info.last_success);
}

TEST_P(Histories, many_detached_grants_do_not_push_out_runs) {
  ran(3);
  for (int i = 0; i < 25; ++i) {
    auto& detached = contender();
    detached.claim.attached = false;
    detached.granted();
    detached.release();
    kill(detached);
  }

  const auto runs = history();

  ASSERT_EQ(runs.size(), 11u);
  EXPECT_EQ(runs.front().outcome, "by hand");
  EXPECT_EQ(runs.back().exit_code, 3);
}

TEST_P(Histories, a_broken_detached_grant_is_listed) {
  auto& detached = contender();
  detached.claim.attached = false;
  const auto fence = detached.granted().fence;
  break_lease(fence);

  ASSERT_EQ(history().size(), 1u);
  EXPECT_EQ(history()[0].outcome, "by hand");
  EXPECT_TRUE(history()[0].ended);
}

TEST_P(Histories, the_last_success_is_known_after_more_failures_than_are_kept) {
  const auto fence = ran(0);
  for (int i = 0; i < 21; ++i) ran(3);

  const auto info = contender().inspect();

  ASSERT_TRUE(info.last_success);
  EXPECT_EQ(info.last_success->fence, fence);
  EXPECT_TRUE(info.known);
}

TEST_P(Histories, a_success_of_a_reader_and_one_in_a_slot_are_known) {
  auto& reader = contender("book");
  reader.claim.mode = Mode::shared;
  reader.granted();
  reader.release(exit_with(0));
  auto& in_slot = contender("pool");
  in_slot.claim.slots = 2;
  in_slot.granted();
  in_slot.release(exit_with(0));

  EXPECT_TRUE(contender("book").inspect().last_success);
  EXPECT_TRUE(contender("pool").inspect().last_success);
}

TEST_P(Histories, a_grant_released_before_its_command_started_is_not_a_run) {
  auto& quick = contender();
  quick.granted();
  quick.release();

  EXPECT_TRUE(history().empty());
}

TEST_P(Histories, a_run_whose_lock_is_kept_by_min_hold_is_listed_once_as_ended) {
  auto& runner = contender();
  runner.claim.min_hold = std::chrono::hours(1);
  runner.granted();
  runner.release(exit_with(0));

  const auto runs = history();

  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].outcome, "ran");
}

}  // namespace
}  // namespace dlock
