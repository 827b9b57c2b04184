// What a run does when its lease cannot be renewed.

#include <gtest/gtest.h>

#include <vector>

#include "lease/keeper.hpp"

namespace dlock {
namespace {

using std::chrono::seconds;

class Command final : public LeaseWatcher {
 public:
  void extend(Clock::time_point until) override { deadline = until; }
  void forfeit(Loss loss) override { lost = loss; }

  Clock::time_point deadline{};
  std::optional<Loss> lost;
};

// The TTL is 30 s, so the grace is 5 s and the margin 1.5 s.
constexpr Clock::time_point deadline{seconds(1000)};
const std::string why = "db:6379 did not reply within 2s";
constexpr auto in_doubt_at = deadline - milliseconds(6500);

class Outage : public ::testing::Test {
 protected:
  OutagePolicy policy(OnOutage on_outage) {
    return {on_outage, LeaseTiming(seconds(30), seconds(5), seconds(2)), deadline,
            command_,
            [this](const std::string& message) { warnings_.push_back(message); }};
  }

  Command command_;
  std::vector<std::string> warnings_;
};

TEST_F(Outage, with_stop_a_failed_renewal_changes_nothing) {
  auto lease = policy(OnOutage::stop);

  lease.renewal_failed(deadline, why);

  EXPECT_EQ(command_.deadline, Clock::time_point{});
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Outage, with_run_the_first_failed_renewal_removes_the_deadline) {
  auto lease = policy(OnOutage::run);

  lease.renewal_failed(deadline - seconds(20), why);

  EXPECT_EQ(command_.deadline, Clock::time_point::max());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Outage, with_run_a_confirmed_renewal_sets_the_deadline_again) {
  auto lease = policy(OnOutage::run);
  lease.renewal_failed(deadline - seconds(20), why);

  lease.extend(deadline + seconds(10));

  EXPECT_EQ(command_.deadline, deadline + seconds(10));
  EXPECT_TRUE(lease.has_held(deadline));
}

TEST_F(Outage, with_run_it_warns_once_when_the_command_would_have_been_ended) {
  auto lease = policy(OnOutage::run);

  lease.renewal_failed(in_doubt_at - nanoseconds(1), why);
  EXPECT_TRUE(warnings_.empty());
  lease.renewal_failed(in_doubt_at, why);
  lease.renewal_failed(deadline, why);

  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(Outage, each_outage_has_its_own_warning) {
  auto lease = policy(OnOutage::run);
  lease.renewal_failed(in_doubt_at, why);
  lease.extend(deadline + seconds(10));

  lease.renewal_failed(in_doubt_at + seconds(10), why);

  EXPECT_EQ(warnings_.size(), 2u);
}

TEST_F(Outage, a_loss_during_an_outage_does_not_end_the_command) {
  auto lease = policy(OnOutage::run);
  lease.renewal_failed(deadline - seconds(20), why);

  lease.forfeit(Loss::gone);

  EXPECT_FALSE(command_.lost);
  EXPECT_EQ(lease.lost(), Loss::gone);
  EXPECT_FALSE(lease.has_held(deadline - seconds(20)));
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(Outage, a_loss_outside_an_outage_ends_the_command) {
  for (const auto on_outage : {OnOutage::stop, OnOutage::run}) {
    auto lease = policy(on_outage);

    lease.forfeit(Loss::taken_over);

    EXPECT_EQ(command_.lost, Loss::taken_over);
    EXPECT_FALSE(lease.lost());
  }
}

TEST_F(Outage, a_lease_has_certainly_held_only_until_its_deadline) {
  const auto lease = policy(OnOutage::run);

  EXPECT_TRUE(lease.has_held(deadline - nanoseconds(1)));
  EXPECT_FALSE(lease.has_held(deadline));
}

TEST_F(Outage, a_lease_without_a_deadline_has_always_held) {
  const OutagePolicy lease(OnOutage::run,
                           LeaseTiming(seconds(30), seconds(5), seconds(2)),
                           Clock::time_point::max(), command_, {});

  EXPECT_TRUE(lease.has_held(Clock::now()));
}

class Leases : public ::testing::Test {
 protected:
  Command command_;
  LeaseGroup leases_{command_};
  LeaseWatcher& first_ = leases_.add(deadline);
  LeaseWatcher& second_ = leases_.add(deadline + seconds(5));
};

TEST_F(Leases, the_command_may_run_until_the_first_of_them_ends) {
  first_.extend(deadline + seconds(10));
  EXPECT_EQ(command_.deadline, deadline + seconds(5));
  second_.extend(deadline + seconds(20));
  EXPECT_EQ(command_.deadline, deadline + seconds(10));
}

TEST_F(Leases, one_that_may_end_does_not_hide_the_other) {
  first_.extend(Clock::time_point::max());
  EXPECT_EQ(command_.deadline, deadline + seconds(5));
}

TEST_F(Leases, a_loss_of_any_is_told) {
  second_.forfeit(Loss::taken_over);
  EXPECT_EQ(command_.lost, Loss::taken_over);
}

}  // namespace
}  // namespace dlock
