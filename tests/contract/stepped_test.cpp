// What a store on stepped::StateStore does if its steps lose races and answers, on the
// store in memory.

#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <string>
#include <vector>

#include "tests/contract/contender.hpp"
#include "tests/run_end.hpp"

namespace dlock {
namespace {

// A service whose next writes have the fates in this list; after it, they are done.
class ScriptedWorld final : public World {
 public:
  ScriptedWorld() {
    service.fate = [this](bool) {
      ++writes;
      if (fates.empty()) return Fate::done;
      const auto fate = fates.front();
      fates.pop_front();
      return fate;
    };
  }

  std::unique_ptr<Store> connect(asio::io_context& context,
                                 milliseconds timeout) override {
    return std::make_unique<MemoryStore>(context, service, timeout);
  }
  std::shared_ptr<void> hold_up() override { return nullptr; }
  void wipe_out() override { service.locks.clear(); }

  MemoryService service;
  std::deque<Fate> fates;
  int writes = 0;
};

class Stepped : public ::testing::Test {
 protected:
  Contender& contender() {
    return contenders_.emplace_back(context_, world_, claim_of("job"));
  }
  LockInfo info() { return contender().inspect(); }

  asio::io_context context_;
  ScriptedWorld world_;
  std::list<Contender> contenders_;
};

TEST_F(Stepped, a_step_that_was_too_slow_is_taken_again) {
  world_.fates = {Fate::lost_race};

  EXPECT_TRUE(contender().is_granted());

  EXPECT_EQ(world_.writes, 2);
}

TEST_F(Stepped, a_step_is_exclusive_when_it_is_taken_again) {
  world_.fates = {Fate::lost_race, Fate::lost_race};

  EXPECT_TRUE(contender().is_granted());

  EXPECT_TRUE(world_.fates.empty());
}

TEST_F(Stepped, a_step_that_changes_nothing_writes_nothing) {
  contender().granted();
  auto& other = contender();
  world_.writes = 0;

  EXPECT_TRUE(other.is_busy());
  other.release();
  info();

  EXPECT_EQ(world_.writes, 0);
}

TEST_F(Stepped, a_waiter_in_front_writes_its_place_again_once_it_is_no_longer_fresh) {
  contender().granted();
  auto& waiter = contender();
  waiter.claim.label = "nightly";
  waiter.queued();
  const auto place = [&]() -> auto& {
    return world_.service.locks[{"dlock", "job"}].state.waiters.at(0).lives_until;
  };
  world_.writes = 0;

  waiter.queued();
  EXPECT_EQ(world_.writes, 0);

  place() = Clock::now() + rules::place_lasts - milliseconds(15'001);
  waiter.queued();
  EXPECT_EQ(world_.writes, 1);
  EXPECT_GT(*place(), Clock::now() + rules::place_lasts - milliseconds(5000));
}

TEST_F(Stepped, a_waiter_that_has_come_to_the_front_asks_soon_though_nothing_wakes_it) {
  auto& holder = contender();
  holder.granted();
  contender().queued();
  contender().queued();
  auto& third = contender();
  third.queued();
  const auto waiting = [&]() -> asio::awaitable<milliseconds> {
    const auto began = Clock::now();
    co_await third.claimant().await_turn(third.wakeup.within(milliseconds(5000)));
    co_return std::chrono::ceil<milliseconds>(Clock::now() - began);
  };
  result_of(context_, waiting());  // which only begins to listen
  Task<milliseconds> waits(context_, waiting());

  holder.release();

  const auto waited = waits.result();
  EXPECT_GE(waited, rules::SafetyNet().of_first_two - milliseconds(100));
  EXPECT_LT(waited, 2 * rules::SafetyNet().of_first_two);
}

TEST_F(Stepped, a_refusal_is_counted_once_and_not_again_if_that_loses) {
  contender().granted();
  world_.writes = 0;

  contender().ask(Queue::refuse);
  world_.fates = {Fate::lost_race};
  const auto second = contender().ask(Queue::refuse);

  EXPECT_TRUE(std::holds_alternative<Busy>(second));
  EXPECT_EQ(world_.writes, 2);
  EXPECT_EQ(info().refused, 1u);
}

TEST_F(Stepped, a_refusal_is_an_answer_also_if_it_cannot_be_counted) {
  contender().granted();
  world_.fates = {Fate::answer_lost};

  EXPECT_TRUE(std::holds_alternative<Busy>(contender().ask(Queue::refuse)));
}

TEST_F(Stepped, a_lock_without_fences_left_is_not_granted) {
  world_.service.locks[{"dlock", "job"}].state.last_fence = greatest_fence;

  EXPECT_THROW(contender().ask(), Failure);

  EXPECT_EQ(world_.writes, 0);
}

TEST_F(Stepped, a_step_that_fails_with_exclusive_access_ends_it) {
  world_.service.fate = [&](bool) {
    world_.service.locks[{"dlock", "job"}].state.last_fence = greatest_fence;
    return Fate::lost_race;
  };

  EXPECT_THROW(contender().ask(), Failure);

  EXPECT_FALSE(world_.service.is_taken);
}

TEST_F(Stepped, a_claim_that_finds_a_thousand_waiters_has_no_place_and_asks_again) {
  contender().granted();
  auto& waiters = world_.service.locks[{"dlock", "job"}].state.waiters;
  for (int i = 0; i < 999; ++i) {
    rules::Waiter waiter;
    waiter.party.token.bytes = random_bytes();
    waiter.lives_until = Clock::now() + std::chrono::hours(1);
    waiters.push_back(waiter);
  }
  auto& last = contender();
  EXPECT_EQ(last.queued().place, 1000u);
  auto& next = contender();

  EXPECT_EQ(next.queued().place, 0u);
  EXPECT_EQ(last.queued().place, 1000u);
  EXPECT_EQ(info().waiters.size(), 1000u);
  auto& important = contender();
  important.claim.priority = -1;
  EXPECT_EQ(important.queued().place, 1u);
  important.release();

  last.release();
  EXPECT_EQ(next.queued().place, 1000u);
}

TEST_F(Stepped, a_claim_whose_answer_was_lost_finds_its_grant_and_can_be_released) {
  for (const bool asks_again : {true, false}) {
    auto& holder = contender();
    world_.fates = {Fate::answer_lost};
    EXPECT_THROW(holder.ask(), Failure);
    const auto fence = info().holders.at(0).fence;

    if (asks_again) {
      EXPECT_EQ(holder.granted().fence, fence);
    }
    EXPECT_EQ(holder.release(), Release::released);
  }
  EXPECT_TRUE(contender().is_granted());
}

// Also in a lock that was used before, and after a release that met a conflict.
TEST_F(Stepped, a_late_request_does_nothing_after_the_release_of_its_claim) {
  const std::vector<std::deque<Fate>> all{{Fate::late}, {Fate::late, Fate::conflict}};
  for (const auto& fates : {all[0], all[0], all[1]}) {
    auto& claimant = contender();
    world_.fates = fates;
    EXPECT_THROW(claimant.ask(), Failure);
    claimant.release();

    world_.service.deliver();

    EXPECT_TRUE(info().holders.empty());
    contender().granted();
    contenders_.back().release();
  }
}

TEST_F(Stepped, a_late_place_in_the_queue_is_not_taken_after_the_claim_has_left) {
  contender().granted();
  auto& waiter = contender();
  world_.fates = {Fate::late};
  EXPECT_THROW(waiter.ask(Queue::join), Failure);
  waiter.release();

  world_.service.deliver();

  EXPECT_TRUE(info().waiters.empty());
}

TEST_F(Stepped, a_late_release_does_not_free_the_lock_of_another) {
  auto& first = contender();
  first.granted();
  world_.fates = {Fate::late};
  EXPECT_THROW(first.release(), Failure);
  EXPECT_EQ(first.release(), Release::released);
  const auto fence = contender().granted().fence;

  world_.service.deliver();

  EXPECT_EQ(info().holders.at(0).fence, fence);
}

// A server that takes over may lack the lease. On the same server, a missing lease was
// removed on purpose.
TEST_F(Stepped, a_lease_that_is_restored_after_a_failover_and_then_removed_is_lost) {
  auto& holder = contender();
  holder.granted();
  world_.wipe_out();
  ++world_.service.epoch;
  EXPECT_EQ(holder.renew(), Renewal::reclaimed);

  world_.wipe_out();

  EXPECT_EQ(holder.renew(), Renewal::gone);
}

TEST_F(Stepped, a_lease_that_is_confirmed_after_a_failover_and_then_removed_is_lost) {
  auto& holder = contender();
  holder.granted();
  ++world_.service.epoch;
  EXPECT_EQ(holder.renew(), Renewal::confirmed);

  world_.wipe_out();

  EXPECT_EQ(holder.renew(), Renewal::gone);
}

TEST_F(Stepped, a_lease_is_not_restored_after_a_failover_if_another_was_granted_since) {
  auto& holder = contender();
  auto& other = contender();
  holder.granted();
  world_.wipe_out();
  ++world_.service.epoch;
  other.granted();
  other.release(exit_with(0));
  auto& state = world_.service.locks[{"dlock", "job"}].state;
  state.last_fence = Fence{1};  // by a clock that is behind
  state.runs.clear();

  EXPECT_EQ(holder.renew(), Renewal::failed_over);
  EXPECT_EQ(holder.release(exit_with(0)), Release::failed_over);
}

}  // namespace
}  // namespace dlock
