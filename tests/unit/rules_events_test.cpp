// The events for `dlock watch`, derived from two states of a lock.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rules/look.hpp"
#include "tests/run_end.hpp"
#include "tests/unit/lock_by_hand.hpp"
#include "tests/unit/rules_scenes.hpp"

namespace dlock::rules {
namespace {

[[maybe_unused]] const bool events_scenes = add_rules_scenes("Events", R"(
a step that changes nothing has no event:
  1 takes events=granted1/0; 1 takes events=; 2 is_busy events=
a waiter is queued and then granted without having left:
  1 takes; 2 queues 1 events=queued2/0; 1 ends events=released1/1; 2 takes events=granted2/0
a waiter that gives up has left:
  1 takes; 2 queues 1; 2 leaves events=left2/0
a lost run is reported as lost unless its lease was broken:
  1 takes; 1 ends(code=76, outcome=lost) events=lost1/1
  ; 2 takes; 9 breaks(2); 2 ends(code=76, outcome=lost) events=released2/1
a dead holder expires before the next grant:
  1 takes; 1 dies; 2 takes events=expired1/1,granted2/0
a broken holder is reported once:
  1 takes; 9 breaks(1) events=broken1/0; 9 breaks(1) events=
a break removes a detached lease:
  1(detached) takes; 9 breaks(1) events=broken1/1
a lock kept by min hold is released when min hold ends:
  1(min_hold=1h) takes; 1 ends events=; pass 1h; lock tidies events=released1/1
free slots are counted after each event:
  1(slots=3) takes; 2(slots=3) takes; 1 dies; 2 dies
  ; 3(slots=3) takes events=expired1/2,expired2/3,granted3/2
free slots of an expired lease are not those of the next claim:
  1(slots=3) takes; 1 dies; 2 takes events=expired1/3,granted2/0
a lease that is released too late is reported as expired:
  1(detached) takes; pass 1h; 1 leaves events=expired1/1
shared holders leave no slot free until the last one releases:
  1(shared) takes events=granted1/0; 2(shared) takes events=granted2/0
  ; 1 leaves events=released1/0; 2 leaves events=released2/1
a lock is untidy until its dead holder is removed:
  1 takes; lock !untidy; 1 dies; lock untidy; lock tidies; lock !untidy
)");

class EventDetails : public ::testing::Test, protected LockByHand {
 protected:
  // The only event of a step.
  template <typename Step>
  Event event_of(Step step, const Cause& cause = {}) {
    const auto before = state;
    step();
    const auto events = events_between(before, state, {"dlock", "job"}, cause, now);
    EXPECT_EQ(events.size(), 1u);
    return events.at(0);
  }
};

TEST_F(EventDetails, of_a_grant) {
  const auto event = event_of([&] { ask(exclusive(1)); });

  EXPECT_EQ(event.lock, (LockName{"dlock", "job"}));
  EXPECT_EQ(event.fence, state.holders[0].fence);
  EXPECT_EQ(event.host, "web1");
  EXPECT_EQ(event.command, std::vector<std::string>{"./job"});
  EXPECT_EQ(event.time, now.wall);
}

TEST_F(EventDetails, of_a_release_say_how_the_run_ended) {
  ask(exclusive(1));
  const auto end = exit_with(3);

  const auto event = event_of([&] { release(1, end); }, {token_of(1), end, {}, {}});

  EXPECT_EQ(event.run.value().exit_code, 3);
}

TEST_F(EventDetails, of_a_lease_that_is_released_too_late_say_when_it_ended) {
  ask(detached(1));
  const auto expires = now.wall + detached(1).ttl;
  pass(std::chrono::hours(1));

  EXPECT_EQ(event_of([&] { release(1); }, {token_of(1), {}, {}, {}}).time, expires);
}

TEST_F(EventDetails, of_a_break_say_who_broke_a_lease_even_if_it_is_removed) {
  const Taker taker{"1000", "web2", false};
  for (const auto& claim : {exclusive(1), detached(2)}) {
    state = {};
    ask(claim);
    const auto fence = state.holders[0].fence;
    const auto event = event_of([&] { rules::break_leases(step(), {fence}, taker); },
                                {std::nullopt, std::nullopt, {fence}, taker});

    EXPECT_EQ(event.taken_by, taker);
  }
}

}  // namespace
}  // namespace dlock::rules
