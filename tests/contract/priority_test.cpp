// What every store does for --priority and --spread.

#include <gtest/gtest.h>

#include <list>
#include <string>
#include <vector>

#include "lease/holding.hpp"
#include "tests/contract/contender.hpp"
#include "util/failure.hpp"

namespace dlock {
namespace {

class Queued : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& contender(int priority = 0) {
    auto& added = contenders_.emplace_back(context_, *world_, claim_of("job"));
    added.claim.priority = priority;
    return added;
  }
  // A release promises the lock to it instead of granting it at once, which a server may
  // do for a plain claim.
  Contender& promised_later(int priority = 0) {
    auto& added = contender(priority);
    added.claim.fence_floor = Fence{1};
    return added;
  }
  Contender& reader(int priority) {
    auto& added = contender(priority);
    added.claim.mode = Mode::shared;
    return added;
  }
  Contender& in_slot(bool spreads) {
    auto& added = contender();
    added.claim.slots = 3;
    added.claim.spreads = spreads;
    return added;
  }
  std::vector<int> waiting() {
    std::vector<int> priorities;
    for (const auto& waiter : contender().inspect().waiters) {
      priorities.push_back(waiter.priority);
    }
    return priorities;
  }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
};

class Priority : public Queued {};
class Spread : public Queued {};
class NoPriority : public Queued {};

INSTANTIATE_TEST_SUITE_P(stores, Priority,
                         ::testing::ValuesIn(kinds_with(&Kind::orders_by_priority)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(stores, Spread, ::testing::ValuesIn(kinds_with(&Kind::spreads)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(stores, NoPriority, ::testing::Values(kinds[6]), name_of);

TEST_P(Priority, waiters_go_by_priority_and_then_in_order_of_arrival) {
  auto& holder = contender();
  holder.granted();
  auto& usual = contender();
  auto& first = contender(-20);
  auto& last = contender(19);
  auto& second = contender(-20);
  auto& another = contender();

  EXPECT_EQ(usual.queued().place, 1u);
  EXPECT_EQ(first.queued().place, 1u);
  EXPECT_EQ(last.queued().place, 3u);
  EXPECT_EQ(second.queued().place, 2u);
  EXPECT_EQ(another.queued().place, 4u);
  EXPECT_EQ(usual.queued().place, 3u);
  EXPECT_EQ(waiting(), (std::vector<int>{-20, -20, 0, 0, 19}));
  holder.release();
  for (auto* next : {&first, &second, &usual, &another, &last}) {
    next->granted();
    next->release();
  }
}

TEST_P(Priority, a_promise_stays_when_a_more_important_claim_comes) {
  if (!GetParam().raises_fences) return;
  auto& holder = contender();
  holder.granted();
  auto& promised = promised_later();
  auto& behind = contender();
  promised.queued();
  behind.queued();
  holder.release();

  auto& important = contender(-1);
  EXPECT_EQ(important.queued().place, 1u);
  promised.granted();
  EXPECT_EQ(important.queued().place, 1u);
  promised.release();
  important.granted();
  important.release();
  behind.granted();
}

TEST_P(Priority, a_claim_overtakes_only_less_important_ones) {
  auto& reading = reader(0);
  reading.granted();
  auto& writer = contender(3);
  writer.queued();

  EXPECT_TRUE(reader(3).is_busy());
  EXPECT_TRUE(reader(4).is_busy());
  reader(2).granted();
  EXPECT_EQ(waiting(), std::vector<int>{3});
}

TEST_P(Priority, all_waiters_count_for_a_claim_that_waits_only_in_a_short_queue) {
  contender().granted();
  contender(19).queued();
  auto& important = contender(-20);
  important.claim.max_queue = 1;

  EXPECT_EQ(important.queued().place, 0u);
}

TEST_P(Spread, a_host_gets_one_slot_and_those_behind_the_others) {
  auto& first = in_slot(true);
  first.granted();
  auto& spreads = in_slot(true);
  EXPECT_TRUE(spreads.is_busy());
  EXPECT_EQ(spreads.queued().place, 1u);

  auto& does_not = in_slot(false);
  does_not.granted();
  EXPECT_EQ(spreads.queued().place, 1u);
  first.release();
  EXPECT_EQ(spreads.queued().place, 1u);
  does_not.release();
  spreads.granted();
}

TEST_P(Spread, one_behind_waiters_that_it_may_pass_does_not_rely_on_them) {
  for (int i = 0; i < 3; ++i) {
    auto& holder = in_slot(false);
    holder.claim.ttl = milliseconds(500);
    holder.granted();
  }
  in_slot(true).queued();
  in_slot(true).queued();
  contenders_.clear();  // as if the hosts had died
  auto& behind = in_slot(false);

  Patience patience;
  patience.until = Clock::now() + std::chrono::seconds(8);
  const auto answer =
      result_of(context_, acquire(behind.claimant(), std::move(patience), behind.wakeup));

  EXPECT_TRUE(std::holds_alternative<Grant>(answer));
}

TEST_P(NoPriority, a_claim_with_priority_or_spread_is_refused) {
  const auto refused = [&](Contender& asks) {
    try {
      asks.claimant();
    } catch (const Failure& failure) {
      return failure.kind() == Failure::Kind::unsupported;
    }
    return false;
  };
  EXPECT_TRUE(refused(contender(1)));
  EXPECT_TRUE(refused(in_slot(true)));
}

}  // namespace
}  // namespace dlock
