// What every store does when a lease is broken.

#include <gtest/gtest.h>

#include <list>
#include <string>
#include <vector>

#include "lock/history.hpp"
#include "tests/contract/contender.hpp"

namespace dlock {
namespace {

using std::chrono::hours;

RunEnd as_broken() {
  RunEnd end;
  end.exit_code = 76;
  end.outcome = "lost";
  end.lost = Loss::broken;
  return end;
}

class Witness final : public LeaseWatcher {
 public:
  void extend(Clock::time_point) override {}
  void forfeit(Loss loss) override {
    told = loss;
    ++times;
  }

  std::optional<Loss> told;
  int times = 0;
};

class Breaking : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& exclusive() {
    return contenders_.emplace_back(context_, *world_, claim_of("job"));
  }
  Contender& shared() {
    auto& contender = exclusive();
    contender.claim.mode = Mode::shared;
    return contender;
  }

  Fence kept(Contender& holder, Witness& witness) {
    const auto grant = holder.granted();
    holder.keep(grant, witness);
    return grant.fence;
  }
  // As at the end of a run.
  static void give_back(Contender& holder) {
    holder.stop_keeping();
    holder.release(as_broken());
  }

  std::vector<HolderInfo> break_leases(const std::vector<Fence>& fences,
                                       bool by_force = false) {
    auto& breaker = exclusive();
    Task<Nothing> task(context_, collect(breaker, fences, by_force));
    task.result();
    return broken_;
  }
  asio::awaitable<Nothing> collect(Contender& breaker, std::vector<Fence> fences,
                                   bool by_force) {
    broken_.clear();
    const Break order{std::move(fences), by_force};
    auto found =
        co_await breaker.store->break_leases(breaker.claim.lock, order, breaker.wakeup);
    for (auto& broken : found) broken_.push_back(broken.holder);
    co_return Nothing{};
  }

  std::vector<HolderInfo> holders() { return exclusive().inspect().holders; }
  bool comes_true(const std::function<bool()>& is_true) {
    return eventually(context_, is_true);
  }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
  std::vector<HolderInfo> broken_;
};

INSTANTIATE_TEST_SUITE_P(stores, Breaking, ::testing::ValuesIn(kinds), name_of);

TEST_P(Breaking, the_holder_is_notified_that_its_lease_is_broken) {
  Witness witness;
  auto& holder = exclusive();
  const auto fence = kept(holder, witness);

  break_leases({fence});

  ASSERT_TRUE(comes_true([&] { return witness.told.has_value(); }));
  EXPECT_EQ(witness.told, Loss::broken);
  give_back(holder);
}

TEST_P(Breaking, a_holder_of_more_than_a_second_is_notified_within_half_a_second) {
  Witness witness;
  auto& holder = exclusive();
  const auto fence = kept(holder, witness);
  const auto watches = Clock::now() + milliseconds(1300);
  ASSERT_TRUE(comes_true([&] { return Clock::now() > watches; }));
  const auto before = Clock::now();

  break_leases({fence});

  ASSERT_TRUE(comes_true([&] { return witness.told.has_value(); }));
  EXPECT_LT(Clock::now() - before, milliseconds(500));
  give_back(holder);
}

TEST_P(Breaking, a_holder_is_notified_of_a_break_before_it_began_to_keep_its_lease) {
  Witness witness;
  auto& holder = exclusive();
  const auto grant = holder.granted();
  break_leases({grant.fence});

  holder.keep(grant, witness);

  EXPECT_TRUE(comes_true([&] { return witness.told == Loss::broken; }));
  give_back(holder);
}

TEST_P(Breaking, the_broken_holders_are_returned_as_they_were_before) {
  auto& holder = exclusive();
  holder.claim.label = "nightly";
  const auto fence = holder.granted().fence;

  const auto broken = break_leases({fence});

  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken[0].fence, fence);
  EXPECT_EQ(broken[0].label, "nightly");
  EXPECT_EQ(broken[0].pid, ::getpid());
  EXPECT_FALSE(broken[0].broken);
  EXPECT_FALSE(broken[0].dlock_gone);
  EXPECT_FALSE(broken[0].user.empty());
}

TEST_P(Breaking, the_lock_stays_held_until_it_is_released) {
  auto& holder = exclusive();
  const auto fence = holder.granted().fence;

  break_leases({fence});

  EXPECT_TRUE(exclusive().is_busy());
  ASSERT_EQ(holders().size(), 1u);
  EXPECT_TRUE(holders()[0].broken);
  EXPECT_EQ(holder.release(as_broken()), Release::released);
  EXPECT_TRUE(holders().empty());
}

TEST_P(Breaking, the_release_hands_the_lock_to_the_first_waiter) {
  auto& holder = exclusive();
  const auto fence = holder.granted().fence;
  auto& waiter = exclusive();
  waiter.queued();

  break_leases({fence});
  EXPECT_TRUE(std::holds_alternative<Busy>(waiter.ask(Queue::join)));
  holder.release(as_broken());

  EXPECT_TRUE(std::holds_alternative<Grant>(waiter.ask(Queue::join)));
}

TEST_P(Breaking, a_holder_that_asks_again_gets_the_same_grant_and_is_still_broken) {
  auto& holder = exclusive();
  const auto fence = holder.granted().fence;
  break_leases({fence});

  EXPECT_EQ(holder.granted().fence, fence);
  EXPECT_TRUE(holders()[0].broken);
}

TEST_P(Breaking, other_fences_break_nothing) {
  EXPECT_TRUE(break_leases({{7}}).empty());
  exclusive().granted();

  EXPECT_TRUE(break_leases({{7}, {0}}).empty());

  EXPECT_FALSE(holders()[0].broken);
}

TEST_P(Breaking, of_several_holders_only_those_with_the_given_fences_lose_the_lock) {
  Witness first;
  Witness second;
  auto& one = shared();
  auto& other = shared();
  const auto fence = kept(one, first);
  kept(other, second);

  const auto broken = break_leases({fence});

  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken[0].fence, fence);
  EXPECT_TRUE(comes_true([&] { return first.told == Loss::broken; }));
  EXPECT_FALSE(second.told);
  give_back(one);
  EXPECT_EQ(holders().size(), 1u);
  give_back(other);
}

TEST_P(Breaking, all_shared_holders_can_lose_the_lock_at_once) {
  const auto first = shared().granted().fence;
  const auto second = shared().granted().fence;

  EXPECT_EQ(break_leases({first, second}).size(), 2u);
}

TEST_P(Breaking, a_second_break_finds_the_same_holder_and_does_not_notify_it_again) {
  Witness witness;
  auto& holder = exclusive();
  const auto fence = kept(holder, witness);
  break_leases({fence});
  ASSERT_TRUE(comes_true([&] { return witness.told.has_value(); }));

  const auto again = break_leases({fence});

  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(again[0].broken);
  EXPECT_EQ(witness.times, 1);
  give_back(holder);
}

TEST_P(Breaking, a_broken_lock_is_not_kept_by_min_hold) {
  auto& holder = exclusive();
  holder.claim.min_hold = hours(1);
  const auto fence = holder.granted().fence;
  break_leases({fence});

  holder.release(as_broken());

  EXPECT_TRUE(holders().empty());
}

TEST_P(Breaking, a_lock_kept_by_min_hold_is_free_at_once) {
  auto& holder = exclusive();
  holder.claim.min_hold = hours(1);
  const auto fence = holder.granted().fence;
  holder.release(as_broken());
  ASSERT_TRUE(exclusive().is_busy());

  EXPECT_EQ(break_leases({fence}).size(), 1u);

  EXPECT_TRUE(exclusive().is_granted());
}

TEST_P(Breaking, a_lock_kept_by_min_hold_goes_to_the_first_waiter) {
  auto& holder = exclusive();
  holder.claim.min_hold = hours(1);
  const auto fence = holder.granted().fence;
  holder.release(as_broken());
  auto& waiter = exclusive();
  waiter.queued();

  break_leases({fence});

  EXPECT_TRUE(exclusive().is_busy());
  EXPECT_TRUE(std::holds_alternative<Grant>(waiter.ask(Queue::join)));
}

TEST_P(Breaking, the_next_grant_is_not_broken) {
  Witness witness;
  auto& holder = exclusive();
  const auto fence = holder.granted().fence;
  break_leases({fence});
  holder.release(as_broken());

  auto& next = exclusive();
  kept(next, witness);

  EXPECT_FALSE(holders()[0].broken);
  give_back(next);
  EXPECT_FALSE(witness.told);
}

// By force

TEST_P(Breaking, a_lease_that_is_freed_by_force_is_handed_over_at_once) {
  Witness witness;
  auto& holder = exclusive();
  if (!holder.store->leases_expire()) return;
  const auto fence = kept(holder, witness);
  auto& waiter = exclusive();
  waiter.queued();

  const auto broken = break_leases({fence}, true);

  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken.front().fence, fence);
  const auto answer = waiter.ask(Queue::join);
  ASSERT_TRUE(std::holds_alternative<Grant>(answer));
  EXPECT_GT(std::get<Grant>(answer).fence, fence);
  EXPECT_TRUE(comes_true([&] { return witness.told == Loss::broken; }));
  give_back(holder);
  EXPECT_EQ(holders().size(), 1u);
}

TEST_P(Breaking, a_run_whose_lock_was_freed_by_force_is_recorded_as_lost) {
  auto& holder = exclusive();
  if (!holder.store->leases_expire()) return;
  const auto fence = holder.granted().fence;

  break_leases({fence}, true);

  auto run = exclusive().inspect().last_run;
  ASSERT_TRUE(run);
  EXPECT_EQ(run->outcome, "lost");
  EXPECT_TRUE(forced_by(*run)) << run->reason;
  auto end = as_broken();
  end.lost.reset();
  EXPECT_EQ(holder.release(end), Release::broken);
  end.lost = Loss::unconfirmed;
  EXPECT_EQ(holder.release(end), Release::not_ours);
  run = exclusive().inspect().last_run;
  ASSERT_TRUE(run);
  EXPECT_EQ(run->exit_code, 76);
  EXPECT_TRUE(forced_by(*run)) << run->reason;
}

TEST_P(Breaking, a_broken_lease_is_freed_by_force) {
  auto& holder = exclusive();
  if (!holder.store->leases_expire()) return;
  const auto fence = holder.granted().fence;
  break_leases({fence});

  break_leases({fence}, true);

  EXPECT_TRUE(exclusive().is_granted());
}

}  // namespace
}  // namespace dlock
