// The counts of refused and superseded claims in every store.

#include <gtest/gtest.h>

#include <list>

#include "lease/holding.hpp"
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

TEST_P(Counts, are_zero_at_first) {
  EXPECT_EQ(refused(), 0u);
  contender().granted();

  EXPECT_EQ(refused(), 0u);
  EXPECT_EQ(superseded(), 0u);
}

TEST_P(Counts, include_a_last_request_that_is_refused) {
  auto& holder = contender();
  holder.granted();
  contender().ask(Queue::refuse);
  contender().ask(Queue::refuse);
  EXPECT_EQ(refused(), 2u);
  holder.release();

  contender().ask(Queue::refuse);

  EXPECT_EQ(refused(), 2u);
}

TEST_P(Counts, omit_a_claim_that_will_ask_again) {
  contender().granted();
  contender().ask(Queue::stay_out);
  contender().ask(Queue::join);

  EXPECT_EQ(refused(), 0u);
}

TEST_P(Counts, do_not_make_a_refused_claim_a_waiter) {
  contender().granted();

  const auto answer = std::get<Busy>(contender().ask(Queue::refuse));

  EXPECT_EQ(answer.place, 0u);
  EXPECT_EQ(answer.queued, 0u);
}

TEST_P(Counts, omit_a_promised_claim_that_is_granted_the_lock_at_the_end_of_its_wait) {
  auto& holder = contender();
  holder.granted();
  auto& waiter = contender();
  waiter.queued();
  holder.release();

  EXPECT_TRUE(std::holds_alternative<Grant>(waiter.ask(Queue::refuse)));

  EXPECT_EQ(refused(), 0u);
}

TEST_P(Counts, include_a_claim_that_does_not_wait_once) {
  contender().granted();

  EXPECT_TRUE(std::holds_alternative<Busy>(acquire_by(contender(), std::nullopt)));

  EXPECT_EQ(refused(), 1u);
}

TEST_P(Counts, include_a_claim_whose_wait_is_over_once) {
  contender().granted();
  auto& waiter = contender();

  acquire_by(waiter, Clock::now() + milliseconds(30));
  waiter.release();

  EXPECT_EQ(refused(), 1u);
}

TEST_P(Counts, include_a_claim_that_found_the_queue_too_long_once) {
  contender().granted();
  contender().queued();
  auto& other = contender();
  other.claim.max_queue = 1;

  acquire_by(other, Clock::now() + seconds(20));
  other.release();

  EXPECT_EQ(refused(), 1u);
}

TEST_P(Counts, omit_a_waiter_that_was_granted_the_lock) {
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

TEST_P(Counts, omit_a_waiter_that_was_told_to_stop) {
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

TEST_P(Counts, omit_a_skipped_run) {
  contender().granted();
  auto& skipped = contender();
  skipped.claim.dedupe = Dedupe{seconds(60)};

  EXPECT_TRUE(std::holds_alternative<Deduplicated>(acquire_by(skipped, std::nullopt)));

  EXPECT_EQ(refused() + superseded(), 0u);
}

TEST_P(Counts, omit_a_claim_inside_the_run_that_holds_the_lock) {
  const auto fence = contender().granted().fence;
  auto& inner = contender();
  inner.claim.outer_fences = {fence};

  EXPECT_TRUE(std::holds_alternative<HeldByOuterRun>(acquire_by(inner, std::nullopt)));

  EXPECT_EQ(refused(), 0u);
}

TEST_P(Counts, include_a_detached_claim) {
  contender().granted();
  auto& other = contender();
  other.claim.attached = false;

  acquire_by(other, std::nullopt);

  EXPECT_EQ(refused(), 1u);
}

TEST_P(Counts, are_separate_for_each_lock) {
  contender().granted();
  contender().ask(Queue::refuse);

  auto& other = contenders_.emplace_back(context_, *world_, claim_of("other"));

  EXPECT_EQ(other.inspect().refused, 0u);
}

TEST_P(Counts, outlive_the_run) {
  auto& holder = contender();
  holder.granted();
  contender().ask(Queue::refuse);

  holder.release(exit_with(0));

  EXPECT_EQ(refused(), 1u);
}

// superseded

TEST_P(Counts, include_a_superseded_waiter_once) {
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

TEST_P(Counts, include_each_superseded_waiter) {
  contender().granted();
  for (int i = 0; i < 4; ++i) superseding().queued();

  EXPECT_EQ(superseded(), 3u);
}

TEST_P(Counts, omit_a_waiter_that_was_not_superseded) {
  contender().granted();
  contender().queued();
  superseding().queued();

  EXPECT_EQ(superseded(), 0u);
}

}  // namespace
}  // namespace dlock
