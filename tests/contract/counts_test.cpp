// How many claims were refused and superseded: what every store counts.

#include <gtest/gtest.h>

#include <list>

#include "lock/acquire.hpp"
#include "tests/contract/contender.hpp"
#include "tests/run_end.hpp"

namespace dlock {
namespace {

using std::chrono::seconds;

class Counts : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& contender() {
    return contenders_.emplace_back(context_, *world_, claim_of("job"));
  }
  Contender& superseding() {
    auto& added = contender();
    added.claim.supersedes = true;
    return added;
  }

  Answer acquire_by(Contender& asks, std::optional<Clock::time_point> until) {
    return result_of(context_,
                     acquire(asks.claimant(), {until, {}, {}, {}}, asks.wakeup));
  }

  std::uint64_t refused() { return contender().inspect().refused; }
  std::uint64_t superseded() { return contender().inspect().superseded; }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
};

INSTANTIATE_TEST_SUITE_P(stores, Counts, ::testing::ValuesIn(kinds), name_of);

// refused

TEST_P(Counts, begin_with_none) {
  EXPECT_EQ(refused(), 0u);
  contender().granted();

  EXPECT_EQ(refused(), 0u);
  EXPECT_EQ(superseded(), 0u);
}

TEST_P(Counts, one_that_asks_for_the_last_time_is_counted_if_it_is_told_busy) {
  auto& holder = contender();
  holder.granted();
  contender().ask(Queue::refuse);
  contender().ask(Queue::refuse);
  EXPECT_EQ(refused(), 2u);
  holder.release();

  contender().ask(Queue::refuse);

  EXPECT_EQ(refused(), 2u);
}

TEST_P(Counts, one_that_will_ask_again_is_not_counted) {
  contender().granted();
  contender().ask(Queue::stay_out);
  contender().ask(Queue::join);

  EXPECT_EQ(refused(), 0u);
}

TEST_P(Counts, one_that_asks_for_the_last_time_takes_no_place) {
  contender().granted();

  const auto answer = std::get<Busy>(contender().ask(Queue::refuse));

  EXPECT_EQ(answer.place, 0u);
  EXPECT_EQ(answer.queued, 0u);
}

TEST_P(Counts, one_that_is_promised_the_lock_when_its_wait_is_over_is_granted_it) {
  auto& holder = contender();
  holder.granted();
  auto& waiter = contender();
  waiter.queued();
  holder.release();

  EXPECT_TRUE(std::holds_alternative<Grant>(waiter.ask(Queue::refuse)));

  EXPECT_EQ(refused(), 0u);
}

TEST_P(Counts, one_without_patience_is_counted_once) {
  contender().granted();

  EXPECT_TRUE(std::holds_alternative<Busy>(acquire_by(contender(), std::nullopt)));

  EXPECT_EQ(refused(), 1u);
}

TEST_P(Counts, one_whose_wait_is_over_is_counted_once) {
  contender().granted();
  auto& waiter = contender();

  acquire_by(waiter, Clock::now() + milliseconds(30));
  waiter.release();

  EXPECT_EQ(refused(), 1u);
}

TEST_P(Counts, one_that_finds_the_queue_too_long_is_counted_once) {
  contender().granted();
  contender().queued();
  auto& other = contender();
  other.claim.max_queue = 1;

  acquire_by(other, Clock::now() + seconds(20));
  other.release();

  EXPECT_EQ(refused(), 1u);
}

TEST_P(Counts, one_that_was_granted_the_lock_in_the_end_is_not_counted) {
  auto& holder = contender();
  holder.granted();
  auto& waiter = contender();
  const Patience patience{Clock::now() + seconds(20), {}, {}, {}};  // outlives the wait
  Task<Answer> wait(context_, acquire(waiter.claimant(), patience, waiter.wakeup));
  eventually(context_, [&] { return contender().inspect().waiters.size() == 1; });

  holder.release();

  EXPECT_TRUE(std::holds_alternative<Grant>(wait.result()));
  EXPECT_EQ(refused(), 0u);
}

TEST_P(Counts, one_that_is_told_to_give_up_is_not_counted) {
  contender().granted();
  auto& waiter = contender();
  const Patience patience{Clock::now() + seconds(20), {}, {}, {}};  // outlives the wait
  Task<Answer> wait(context_, acquire(waiter.claimant(), patience, waiter.wakeup));
  eventually(context_, [&] { return contender().inspect().waiters.size() == 1; });

  waiter.wakeup.give_up(true);
  EXPECT_THROW(wait.result(), Failure);
  waiter.release();

  EXPECT_EQ(refused(), 0u);
}

TEST_P(Counts, a_run_that_is_skipped_is_not_counted) {
  contender().granted();
  auto& skipped = contender();
  skipped.claim.dedupe = Dedupe{seconds(60)};

  EXPECT_TRUE(std::holds_alternative<Deduplicated>(acquire_by(skipped, std::nullopt)));

  EXPECT_EQ(refused() + superseded(), 0u);
}

TEST_P(Counts, one_below_the_run_that_holds_the_lock_is_not_counted) {
  const auto fence = contender().granted().fence;
  auto& inner = contender();
  inner.claim.outer_fences = {fence};

  EXPECT_TRUE(std::holds_alternative<HeldByOuterRun>(acquire_by(inner, std::nullopt)));

  EXPECT_EQ(refused(), 0u);
}

TEST_P(Counts, a_detached_claim_is_counted) {
  contender().granted();
  auto& other = contender();
  other.claim.attached = false;

  acquire_by(other, std::nullopt);

  EXPECT_EQ(refused(), 1u);
}

TEST_P(Counts, each_lock_has_its_own) {
  contender().granted();
  contender().ask(Queue::refuse);

  auto& other = contenders_.emplace_back(context_, *world_, claim_of("other"));

  EXPECT_EQ(other.inspect().refused, 0u);
}

TEST_P(Counts, outlive_the_runs) {
  auto& holder = contender();
  holder.granted();
  contender().ask(Queue::refuse);

  holder.release(exit_with(0));

  EXPECT_EQ(refused(), 1u);
}

// superseded

TEST_P(Counts, a_waiter_that_gives_way_is_counted_once) {
  contender().granted();
  auto& older = superseding();
  older.queued();
  superseding().queued();

  older.ask(Queue::join);
  older.ask(Queue::refuse);
  older.release();

  EXPECT_EQ(superseded(), 1u);
  EXPECT_EQ(refused(), 0u);
}

TEST_P(Counts, each_waiter_that_gives_way_is_counted) {
  contender().granted();
  for (int i = 0; i < 4; ++i) superseding().queued();

  EXPECT_EQ(superseded(), 3u);
}

TEST_P(Counts, nobody_is_counted_who_gives_no_way) {
  contender().granted();
  contender().queued();
  superseding().queued();

  EXPECT_EQ(superseded(), 0u);
}

}  // namespace
}  // namespace dlock
