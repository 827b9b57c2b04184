// Random schedules of the quorum's rules (quorum_schedule.hpp).
//
// The code and the model were broken by hand to see that they complain, within 30,000
// schedules of each kind, of
//
//   uneven fences that count as held, or are raised to the least of them
//   a server that grants with the fence of its counter, and not with the next
//   votes of servers that are not up for long enough
//   a majority of one fewer
//   an undo that leaves out servers that have not answered, or leaves no mark of it
//   a promise to one that another one makes use of
//   a lease that counts from the reply to a question, or to a renewal
//   a strength that is one too great
//   two with the same fence taken for one
//
// DLOCK_TEST_ROUNDS has more of them than a unit test, DLOCK_TEST_SEED others.

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/unit/quorum_schedule.hpp"

namespace dlock::redis_quorum {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

void expect_all_well(Faults faults) {
  const auto rounds = setting("DLOCK_TEST_ROUNDS", 2000);
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

// Servers may be away, late and cut off in the first two of these.

TEST(QuorumSchedules, hold_while_clocks_of_clients_and_servers_are_hours_apart) {
  expect_all_well({.clocks_of_clients = true, .clocks_of_servers = true});
}

TEST(QuorumSchedules, hold_while_servers_forget_as_many_as_the_strength_allows) {
  expect_all_well({.clocks_of_servers = true, .forgets = true});
}

TEST(QuorumSchedules, serve_those_who_wait_in_order_while_all_is_well) {
  expect_all_well({.none = true});
}

}  // namespace
}  // namespace dlock::redis_quorum
