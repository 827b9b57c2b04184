// The granting rules when runs count for other claims (dedupe), and when locks are kept
// after their runs (min_hold).

#include <gtest/gtest.h>

#include "tests/unit/lock_by_hand.hpp"
#include "tests/unit/rules_scenes.hpp"

namespace dlock::rules {
namespace {

[[maybe_unused]] const bool dedupe_rules_scenes = add_rules_scenes("DedupeRules", R"(
# Which runs count; for how long is decided by is_recent().
a run counts for a window from its start and not from its end:
  1 takes; pass 40m; 1 ends; pass 1199999ms; 2(dedupe=1h) asks deduplicated; pass 1ms; 2 takes
the window is measured by the wall clock and not since boot:
  1 takes; 1 ends; pass(boot) 2h; 2(dedupe=1h) asks deduplicated; pass(wall) 2h; 2 takes
no run counts if the clock was set back far:
  1 takes; 1 ends; pass(wall) -24h; 2(dedupe=1h) takes
a holder that died before its command started was not a run:
  1 takes; 1 dies; 2(dedupe=1h) takes
a deduplicated claim changes nothing:
  1 takes; 2(dedupe=1h) joins deduplicated unchanged

# The queue.
a success removes the waiters for whom it counts:
  1 takes; 2(retry=1h) queues; 3(retry=1s) queues; 4 queues; 5(retry=1h) queues; pass 2s
  ; 1 ends waiters=3,4 woken=2,3,5
a start removes the waiters for whom any run counts:
  1(shared) takes; 2 queues; 3(dedupe=1h) queues; 4(retry=1h) queues; 1 leaves; 2 gets waiters=4 wake=3
a removed waiter is deduplicated by that run until it releases:
  1 takes; 2(retry=1h) queues; 1 ends; pass 2h; 2 joins deduplicated; 2 joins deduplicated; 2 leaves; 2 takes
a removed waiter that died is forgotten:
  1 takes; 2(retry=1h) queues; 1 ends; 2 dies; 3 asks dead=2 answered=0
a removed waiter that asks wakes the next if the holder has died:
  1 takes; 2(retry=1h) queues; 3 queues; 1 ends; 3 takes; 4 queues; 3 dies; 2 joins deduplicated wake=4

# Locks that are kept by min_hold.
min_hold keeps a lock for exactly that time from its grant:
  1(min_hold=10s) takes; pass 4s; 1 ends; 1 dies; pass 6s-1ns; 2 is_busy; pass 1ms; 2 takes
a lock is not kept after a run that took exactly min_hold:
  1(min_hold=10s) takes; pass 10s; 1 ends holders=0
a lock kept by min_hold is promised to no one yet:
  1(min_hold=10s) takes; 2 queues; 1 ends promised=
the first waiter is woken and told to ask when min_hold ends:
  1(min_hold=300ms) takes; 2 queues; 3 queues; 1 ends wake=2; 2 watches asks_in=300
a lock that was kept by min_hold is eventually out of use:
  1(min_hold=10s) takes; 1 ends; pass 768h; pass 1s; lock out_of_use
a lock kept by min_hold for months is in use:
  1(min_hold=2160h) takes; 1 ends; pass 1440h; lock !out_of_use
min_hold can keep a lock forever:
  1(min_hold=9223372036854775807ms) takes; 1 ends; pass 1h; 2 is_busy
)");

class DedupeRules : public ::testing::Test, protected LockByHand {
 protected:
  static Claim deduping(Session who) {
    auto claim = exclusive(who);
    claim.dedupe = Dedupe{std::chrono::hours(1), false};
    return claim;
  }
};

TEST_F(DedupeRules, a_deduplicated_waiter_passes_its_promise_on) {
  ask(shared(1));
  ask(deduping(2), Queue::join);
  ask(exclusive(3), Queue::join);
  release(1);
  // As if the run was recorded without removing waiters: the clock was set since.
  RunInfo run;
  run.started = now.wall;
  run.ended = now.wall;
  run.exit_code = 0;
  state.past.note(run);

  EXPECT_TRUE(std::holds_alternative<Deduplicated>(ask(deduping(2), Queue::join)));
  ASSERT_EQ(state.waiters.size(), 1U);
  EXPECT_TRUE(state.waiters[0].promised_until);
  EXPECT_EQ(then.wake, std::vector<Session>{3});
}

}  // namespace
}  // namespace dlock::rules
