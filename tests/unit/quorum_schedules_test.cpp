// Random schedules of the rules of a quorum (quorum_schedule.hpp).
//
// To check the schedules, each of these defects was put into the code or the model, and
// was found within 30,000 schedules of each kind:
//
//   uneven fences that count as held, or are raised to the least of them
//   a server that grants the fence of its counter instead of the next one
//   votes of servers that have not been up for long enough
//   a majority that is one server too small
//   an undo that skips servers that have not replied, or leaves no mark of it
//   a promise to one client that another one makes use of
//   a lease that is counted from the reply to a request or to a renewal
//   a strength that is too great by one
//   two clients with the same fence that are taken for one
//
// One defect took some 270,000 schedules with servers that forget (seed 20266827):
//
//   votes of an earlier request that are raised to the greatest of them, although
//   another claim had a greater fence since
//
// DLOCK_TEST_ROUNDS sets the number of schedules, DLOCK_TEST_SEED the first seed.

#include <gtest/gtest.h>

#include "tests/unit/quorum_schedule.hpp"
#include "tests/unit/setting.hpp"

namespace dlock::redis_quorum {
namespace {

void expect_no_complaint(Faults faults) {
  const auto rounds = test_rounds();
  const auto seed = setting("DLOCK_TEST_SEED", 1);
  std::size_t wins = 0;
  std::size_t renewals = 0;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    Schedule schedule(seed + i, faults);
    schedule.run();
    ASSERT_EQ(schedule.complaint, "") << "seed " << seed + i;
    wins += schedule.wins;
    renewals += schedule.renewals;
  }
  EXPECT_GT(wins, rounds);
  EXPECT_GE(renewals, rounds / 10);
}

// In the first two tests, servers may be down, late or cut off.

TEST(QuorumSchedules, are_safe_while_the_clocks_of_clients_and_servers_are_hours_apart) {
  expect_no_complaint({.clocks_of_clients = true, .clocks_of_servers = true});
}

TEST(QuorumSchedules, are_safe_while_as_many_servers_forget_as_the_strength_allows) {
  expect_no_complaint({.clocks_of_servers = true, .forgets = true});
}

TEST(QuorumSchedules, serve_waiters_in_order_while_there_are_no_faults) {
  expect_no_complaint({.none = true});
}

}  // namespace
}  // namespace dlock::redis_quorum
