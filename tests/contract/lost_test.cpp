// What every store answers and records when a lease is released that was lost before the
// end of its run.

#include <gtest/gtest.h>

#include <list>
#include <vector>

#include "tests/contract/contender.hpp"
#include "tests/run_end.hpp"
#include "util/process.hpp"
#include "util/users.hpp"

namespace dlock {
namespace {

RunEnd lost_by(Loss loss) {
  auto end = exit_with(76);
  end.outcome = "lost";
  end.lost = loss;
  return end;
}

class Losing : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& exclusive() {
    return contenders_.emplace_back(context_, *world_, claim_of("job"));
  }
  Contender& deduplicated() {
    auto claim = claim_of("job");
    claim.dedupe = Dedupe{std::chrono::hours(1)};
    return contenders_.emplace_back(context_, *world_, claim);
  }
  void break_lease_of(Contender& holder) {
    const auto fence = holder.granted().fence;
    Task<bool> task(context_, broken(exclusive(), fence));
    EXPECT_TRUE(task.result());
  }
  static asio::awaitable<bool> broken(Contender& breaker, Fence fence) {
    const Break order{{fence}};
    const auto holders =
        co_await breaker.store->break_leases(breaker.claim.lock, order, breaker.wakeup);
    co_return holders.size() == 1;
  }

  asio::io_context context_{1};
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
};

INSTANTIATE_TEST_SUITE_P(Stores, Losing, ::testing::ValuesIn(kinds), name_of);

TEST_P(Losing, a_release_reports_that_the_lease_is_gone) {
  auto& holder = exclusive();
  holder.granted();
  world_->wipe_out();

  EXPECT_EQ(holder.release(exit_with(0)), Release::gone);
}

TEST_P(Losing, a_release_reports_that_the_lease_was_broken) {
  auto& holder = exclusive();
  break_lease_of(holder);

  EXPECT_EQ(holder.release(exit_with(0)), Release::broken);
}

TEST_P(Losing, a_renewal_and_a_release_report_who_has_broken_the_lease) {
  const Taker self{user_name(::geteuid()), host_name(), false};
  auto& holder = exclusive();
  break_lease_of(holder);

  EXPECT_EQ(holder.claimant().taken_by(), std::nullopt);
  holder.renew();
  EXPECT_EQ(holder.claimant().taken_by(), self);
  holder.release(lost_by(Loss::broken));
  auto& ends_first = exclusive();
  break_lease_of(ends_first);
  ends_first.release(exit_with(0));
  EXPECT_EQ(ends_first.claimant().taken_by(), self);
}

TEST_P(Losing, a_release_that_reports_a_loss_does_nothing_else) {
  auto& holder = exclusive();
  break_lease_of(holder);

  holder.release(exit_with(0));

  EXPECT_TRUE(exclusive().is_busy());
  EXPECT_EQ(holder.release(exit_with(0)), Release::broken);
}

TEST_P(Losing, a_broken_lease_is_released_by_a_holder_that_knows_of_the_break) {
  auto& holder = exclusive();
  break_lease_of(holder);

  EXPECT_EQ(holder.release(lost_by(Loss::broken)), Release::released);

  EXPECT_TRUE(exclusive().is_granted());
}

TEST_P(Losing, a_run_that_was_lost_is_recorded_with_its_reason) {
  auto& holder = exclusive();
  break_lease_of(holder);

  holder.release(lost_by(Loss::broken));

  const auto run = exclusive().inspect().last_run;
  ASSERT_TRUE(run);
  EXPECT_EQ(run->outcome, "lost");
  EXPECT_EQ(run->reason, "broken");
}

TEST_P(Losing, a_lost_run_does_not_deduplicate_others) {
  auto& holder = exclusive();
  holder.granted();

  holder.release(lost_by(Loss::unconfirmed));

  EXPECT_TRUE(deduplicated().is_granted());
}

TEST_P(Losing, a_release_without_a_run_reports_no_loss) {
  auto& holder = exclusive();
  holder.granted();
  world_->wipe_out();

  EXPECT_EQ(loss_found_by(holder.release()), std::nullopt);
}

TEST_P(Losing, a_lease_that_was_already_released_is_not_lost) {
  auto& holder = exclusive();
  holder.granted();
  holder.release(exit_with(0));

  EXPECT_EQ(holder.release(exit_with(0)), Release::not_ours);
}

class LosingWithValues : public Losing {};

INSTANTIATE_TEST_SUITE_P(Stores, LosingWithValues,
                         ::testing::ValuesIn(kinds_with(&Kind::keeps_values)), name_of);

TEST_P(LosingWithValues, a_broken_holder_stores_no_value) {
  auto& holder = exclusive();
  break_lease_of(holder);

  EXPECT_EQ(holder.put("value"), Storing::not_ours);
}

}  // namespace
}  // namespace dlock
