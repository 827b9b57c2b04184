// What every store does with locks that --min-hold keeps after their runs.

#include <gtest/gtest.h>

#include <list>
#include <string>
#include <vector>

#include "lease/holding.hpp"
#include "tests/contract/contender.hpp"

namespace dlock {
namespace {

using std::chrono::hours;

RunEnd success() {
  RunEnd end;
  end.exit_code = 0;
  end.outcome = "ran";
  return end;
}

class MinHold : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& exclusive() {
    return contenders_.emplace_back(context_, *world_, claim_of("job"));
  }
  Contender& holding(milliseconds min_hold) {
    auto& contender = exclusive();
    contender.claim.min_hold = min_hold;
    return contender;
  }
  Contender& shared(milliseconds min_hold = milliseconds(0)) {
    auto& contender = holding(min_hold);
    contender.claim.mode = Mode::shared;
    return contender;
  }
  Contender& slot(milliseconds min_hold = milliseconds(0)) {
    auto& contender = holding(min_hold);
    contender.claim.slots = 2;
    return contender;
  }

  // As if its process had ended.
  void leave(Contender& contender) {
    contenders_.remove_if([&](const Contender& c) { return &c == &contender; });
  }

  // Ends its run, and its lock is kept.
  Fence ran(Contender& runner) {
    const auto fence = runner.granted().fence;
    runner.release(success());
    leave(runner);
    return fence;
  }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
};

INSTANTIATE_TEST_SUITE_P(stores, MinHold, ::testing::ValuesIn(kinds), name_of);

TEST_P(MinHold, a_run_shorter_than_min_hold_leaves_the_lock_held) {
  auto& runner = holding(hours(1));
  runner.granted();

  EXPECT_EQ(runner.release(success()), Release::released);
  leave(runner);
  EXPECT_TRUE(exclusive().is_busy());
}

TEST_P(MinHold, a_failed_run_leaves_the_lock_held_too) {
  auto end = success();
  end.exit_code = 124;
  end.outcome = "timeout";
  auto& runner = holding(hours(1));
  runner.granted();

  runner.release(end);

  EXPECT_TRUE(exclusive().is_busy());
}

TEST_P(MinHold, the_lock_is_free_that_long_after_its_grant) {
  const auto before = Clock::now();
  ran(holding(milliseconds(300)));
  auto& next = exclusive();

  EXPECT_TRUE(eventually(context_, [&] { return next.is_granted(); }));
  EXPECT_GE(Clock::now() - before, milliseconds(300));
}

TEST_P(MinHold, a_run_longer_than_min_hold_leaves_the_lock_free) {
  auto& runner = holding(milliseconds(20));
  runner.granted();
  const auto granted = Clock::now();
  eventually(context_, [&] { return Clock::now() > granted + milliseconds(30); });

  runner.release(success());

  EXPECT_TRUE(exclusive().is_granted());
}

TEST_P(MinHold, a_grant_released_before_its_command_started_is_not_kept) {
  auto& holder = holding(hours(1));
  holder.granted();

  holder.release();

  EXPECT_TRUE(exclusive().is_granted());
}

TEST_P(MinHold, the_run_is_recorded_as_ended_at_once) {
  const auto fence = ran(holding(hours(1)));

  const auto run = exclusive().inspect().last_run;

  ASSERT_TRUE(run);
  EXPECT_EQ(run->fence, fence);
  EXPECT_EQ(run->outcome, "ran");
  EXPECT_TRUE(run->ended);
}

TEST_P(MinHold, the_end_of_min_hold_is_not_recorded_as_a_vanished_run) {
  ran(holding(milliseconds(50)));
  auto& next = exclusive();
  ASSERT_TRUE(eventually(context_, [&] { return next.is_granted(); }));

  EXPECT_EQ(next.inspect().last_run->outcome, "ran");
}

TEST_P(MinHold, the_lock_is_shown_as_held_by_an_ended_run_and_for_how_long) {
  const auto fence = ran(holding(hours(1)));

  const auto holders = exclusive().inspect().holders;

  ASSERT_EQ(holders.size(), 1u);
  EXPECT_EQ(holders[0].fence, fence);
  EXPECT_TRUE(holders[0].run_ended);
  EXPECT_FALSE(holders[0].attached);
  ASSERT_TRUE(holders[0].expires_in);
  EXPECT_GT(*holders[0].expires_in, milliseconds(3'500'000));
  EXPECT_LE(*holders[0].expires_in, hours(1));
}

TEST_P(MinHold, a_busy_answer_says_that_the_run_has_ended) {
  ran(holding(hours(1)));

  const auto busy = std::get<Busy>(exclusive().ask());

  ASSERT_EQ(busy.holders.size(), 1u);
  EXPECT_TRUE(busy.holders[0].run_ended);
}

TEST_P(MinHold, a_holder_whose_run_is_in_progress_is_not_shown_as_ended) {
  holding(hours(1)).granted();

  const auto holders = exclusive().inspect().holders;

  ASSERT_EQ(holders.size(), 1u);
  EXPECT_FALSE(holders[0].run_ended);
  EXPECT_TRUE(holders[0].attached);
}

TEST_P(MinHold, the_first_waiter_gets_the_lock_at_that_moment) {
  const auto before = Clock::now();
  auto& runner = holding(milliseconds(700));
  runner.granted();
  auto& waiter = exclusive();
  Patience patience;
  patience.until = Clock::time_point::max();
  Task answer(context_, acquire(waiter.claimant(), patience, waiter.wakeup));
  auto& reader = exclusive();
  ASSERT_TRUE(eventually(context_, [&] { return reader.inspect().waiters.size() == 1; }));

  runner.release(success());
  leave(runner);

  // Sooner than a waiter checks that was not notified.
  EXPECT_TRUE(std::holds_alternative<Grant>(answer.result()));
  EXPECT_GE(Clock::now() - before, milliseconds(700));
}

TEST_P(MinHold, a_repeated_release_finds_that_it_is_done) {
  auto& runner = holding(hours(1));
  runner.granted();
  runner.release(success());

  EXPECT_EQ(runner.release(success()), Release::not_ours);
  EXPECT_EQ(exclusive().inspect().holders.size(), 1u);
}

TEST_P(MinHold, nobody_can_renew_or_release_the_lock_not_even_its_former_holder) {
  auto& runner = holding(hours(1));
  runner.granted();
  runner.release(success());

  EXPECT_TRUE(runner.is_busy());
}

TEST_P(MinHold, a_process_that_the_run_left_behind_can_wait_for_the_lock) {
  auto& runner = holding(hours(1));
  const auto fence = runner.granted().fence;
  runner.release(success());
  auto& left = exclusive();
  left.claim.outer_fences.push_back(fence);

  EXPECT_EQ(left.queued().place, 1u);
}

TEST_P(MinHold, an_ended_run_deduplicates_others_at_once) {
  const auto fence = ran(holding(hours(1)));
  auto& other = exclusive();
  other.claim.dedupe = Dedupe{hours(1), true};

  EXPECT_EQ(std::get<Deduplicated>(other.ask()).by.fence, fence);
}

TEST_P(MinHold, a_lock_kept_by_min_hold_is_not_a_run_in_progress) {
  ran(holding(hours(1)));
  auto& other = exclusive();
  other.claim.dedupe = Dedupe{milliseconds(1), false};

  EXPECT_TRUE(eventually(context_, [&] { return other.is_busy(); }));
}

TEST_P(MinHold, only_the_slot_of_the_run_is_kept) {
  ran(slot(hours(1)));
  auto& second = slot();

  EXPECT_EQ(second.granted().slot, 1u);
  EXPECT_TRUE(slot().is_busy());
}

TEST_P(MinHold, a_slot_that_was_kept_is_granted_again) {
  slot().granted();
  ran(slot(milliseconds(100)));
  auto& next = slot();

  EXPECT_TRUE(eventually(context_, [&] { return next.is_granted(); }));
  EXPECT_EQ(next.granted().slot, 1u);
}

TEST_P(MinHold, a_readers_lock_is_kept_among_readers) {
  ran(shared(hours(1)));

  EXPECT_TRUE(shared().is_granted());
  EXPECT_TRUE(exclusive().is_busy());
}

}  // namespace
}  // namespace dlock
