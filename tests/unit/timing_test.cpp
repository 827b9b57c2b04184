// When a lease is renewed, and when the command that relies on it has to end.

#include <gtest/gtest.h>

#include "lease/keeper.hpp"
#include "lock/lease.hpp"

namespace dlock {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr Clock::time_point start{hours(1)};

LeaseTiming usual() { return {seconds(30), seconds(5), seconds(2)}; }

TEST(LeaseTiming, the_default_lease_has_the_durations_of_the_manual) {
  EXPECT_EQ(usual().drift(), milliseconds(302));
  EXPECT_EQ(usual().margin(), milliseconds(1500));
  EXPECT_EQ(usual().grace(), seconds(5));
  EXPECT_EQ(usual().certain_loss_grace(), seconds(1));
  EXPECT_EQ(usual().renew_every(), seconds(10));
  EXPECT_EQ(usual().longest_retry(), milliseconds(2500));
  EXPECT_EQ(usual().needed(), milliseconds(18'802));
  EXPECT_EQ(usual().needed_to_start(), milliseconds(8500));
  EXPECT_TRUE(usual().is_sound());
}

TEST(LeaseTiming, a_lease_is_counted_from_when_it_is_requested) {
  EXPECT_EQ(usual().deadline(start), start + milliseconds(29'698));
}

TEST(LeaseTiming, a_deadline_does_not_overflow) {
  const LeaseTiming endless(milliseconds(std::int64_t{1} << 60), seconds(5), seconds(2));

  EXPECT_EQ(endless.deadline(start), Clock::time_point::max());
}

TEST(LeaseTiming, the_shortest_lease_is_sound_with_its_own_budget) {
  const LeaseTiming shortest(milliseconds(500), seconds(5), milliseconds(50));

  EXPECT_EQ(shortest.grace(), milliseconds(100));
  EXPECT_EQ(shortest.margin(), milliseconds(125));
  EXPECT_TRUE(shortest.is_sound());
}

TEST(LeaseTiming, a_budget_that_leaves_no_time_to_end_the_command_is_not_sound) {
  EXPECT_FALSE(LeaseTiming(seconds(1), seconds(5), milliseconds(500)).is_sound());
}

TEST(LeaseTiming, the_grace_is_never_longer_than_the_user_wants) {
  EXPECT_EQ(LeaseTiming(seconds(30), milliseconds(100), seconds(2)).grace(),
            milliseconds(100));
  EXPECT_EQ(LeaseTiming(seconds(30), milliseconds(100), seconds(2)).certain_loss_grace(),
            milliseconds(100));
}

TEST(LeaseTiming, the_margin_of_a_long_lease_is_bounded) {
  EXPECT_EQ(LeaseTiming(hours(1), seconds(5), seconds(2)).margin(), seconds(2));
}

TEST(NextRenewal, comes_after_a_third_of_the_ttl_or_up_to_a_tenth_of_that_earlier) {
  for (int i = 0; i < 1000; ++i) {
    const auto next = next_renewal(usual(), start, 0, start);

    EXPECT_LE(next, start + seconds(10));
    EXPECT_GE(next, start + seconds(9));
  }
}

TEST(NextRenewal, varies_at_random) {
  const auto first = next_renewal(usual(), start, 0, start);
  bool differs = false;
  for (int i = 0; i < 100; ++i)
    differs |= next_renewal(usual(), start, 0, start) != first;

  EXPECT_TRUE(differs);
}

TEST(NextRenewal, is_retried_at_growing_intervals_after_failures) {
  const auto after = [](int failures) {
    return next_renewal(usual(), start, failures, start + seconds(12)) - start -
           seconds(12);
  };

  EXPECT_EQ(after(1), milliseconds(100));
  EXPECT_EQ(after(2), milliseconds(200));
  EXPECT_EQ(after(3), milliseconds(400));
  EXPECT_EQ(after(6), milliseconds(2500));
  EXPECT_EQ(after(1000), milliseconds(2500));
}

}  // namespace
}  // namespace dlock
