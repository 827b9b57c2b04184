// The events for `dlock watch`, derived from two states of a lock.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rules/look.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::rules {
namespace {

using std::chrono::hours;
using Lines = std::vector<std::string>;

const LockName lock{"dlock", "job"};

RunEnd end_with(const std::string& outcome) {
  RunEnd end;
  end.exit_code = outcome == "lost" ? 76 : 0;
  end.outcome = outcome;
  return end;
}

class Events : public ::testing::Test, protected LockByHand {
 protected:
  // The events of a step: kind, pid and the number of free slots, as "granted 1001 0".
  template <typename Step>
  Lines seen(Step step, const Cause& cause = {}) {
    const auto before = state;
    step();
    events = events_between(before, state, lock, cause, now);
    Lines lines;
    for (const auto& event : events) {
      lines.push_back(std::string(event_name(event.kind)) + " " +
                      std::to_string(event.pid) + " " + std::to_string(event.free));
    }
    return lines;
  }
  Lines released(Session who, const std::optional<RunEnd>& end) {
    return seen([&] { release(who, end); }, {token_of(who), end, {}, {}});
  }

  std::vector<Event> events;
};

TEST_F(Events, the_event_of_a_grant_has_all_its_details) {
  EXPECT_EQ(seen([&] { ask(exclusive(1)); }), Lines{"granted 1001 0"});

  EXPECT_EQ(events[0].lock, lock);
  EXPECT_EQ(events[0].fence, state.holders[0].fence);
  EXPECT_EQ(events[0].host, "web1");
  EXPECT_EQ(events[0].command, std::vector<std::string>{"./job"});
  EXPECT_EQ(events[0].time, now.wall);
}

TEST_F(Events, a_step_that_changes_nothing_has_no_event) {
  ask(exclusive(1));

  EXPECT_EQ(seen([&] { ask(exclusive(1)); }), Lines{});
  EXPECT_EQ(seen([&] { ask(exclusive(2)); }), Lines{});
}

TEST_F(Events, a_waiter_is_queued_and_then_granted_without_having_left) {
  ask(exclusive(1));

  EXPECT_EQ(seen([&] { ask(exclusive(2), Queue::join); }), Lines{"queued 1002 0"});
  EXPECT_EQ(released(1, end_with("ran")), Lines{"released 1001 1"});
  EXPECT_EQ(seen([&] { ask(exclusive(2), Queue::join); }), Lines{"granted 1002 0"});
}

TEST_F(Events, a_waiter_that_gives_up_has_left) {
  ask(exclusive(1));
  ask(exclusive(2), Queue::join);

  EXPECT_EQ(released(2, std::nullopt), Lines{"left 1002 0"});
}

TEST_F(Events, the_event_of_a_release_says_how_the_run_ended) {
  ask(exclusive(1));

  released(1, end_with("ran"));

  ASSERT_TRUE(events[0].run);
  EXPECT_EQ(events[0].run->exit_code, 0);
}

TEST_F(Events, a_lost_run_is_reported_as_lost_unless_its_lease_was_broken) {
  ask(exclusive(1));
  EXPECT_EQ(released(1, end_with("lost")), Lines{"lost 1001 1"});

  ask(exclusive(2));
  rules::break_leases(step(), {state.holders[0].fence}, {});
  EXPECT_EQ(released(2, end_with("lost")), Lines{"released 1002 1"});
}

TEST_F(Events, a_dead_holder_expires_before_the_next_grant) {
  ask(exclusive(1));
  liveness.dead.insert(1);

  EXPECT_EQ(seen([&] { ask(exclusive(2)); }),
            (Lines{"expired 1001 1", "granted 1002 0"}));
}

TEST_F(Events, a_broken_holder_is_reported_once) {
  ask(exclusive(1));
  const auto fence = state.holders[0].fence;
  const auto break_it = [&] { rules::break_leases(step(), {fence}, {}); };

  EXPECT_EQ(seen(break_it, {std::nullopt, std::nullopt, {fence}, {}}),
            Lines{"broken 1001 0"});
  EXPECT_EQ(seen(break_it, {std::nullopt, std::nullopt, {fence}, {}}), Lines{});
}

TEST_F(Events, break_removes_a_detached_lease) {
  ask(detached(1));
  const auto fence = state.holders[0].fence;

  EXPECT_EQ(seen([&] { rules::break_leases(step(), {fence}, {}); },
                 {std::nullopt, std::nullopt, {fence}, {}}),
            Lines{"broken 1001 1"});
}

TEST_F(Events, the_event_of_a_break_says_who_broke_a_lease_even_if_it_is_removed) {
  const Taker taker{"1000", "web2", false};
  for (const auto& claim : {exclusive(1), detached(2)}) {
    state = {};
    ask(claim);
    const auto before = state;
    const auto fence = state.holders[0].fence;
    rules::break_leases(step(), {fence}, taker);

    const auto found = events_between(before, state, {"dlock", "job"},
                                      {std::nullopt, std::nullopt, {fence}, taker}, now);

    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].taken_by, (Taker{"1000", "web2", false}));
  }
}

TEST_F(Events, a_lock_kept_by_min_hold_is_released_when_min_hold_ends) {
  auto claim = exclusive(1);
  claim.min_hold = hours(1);
  ask(claim);

  EXPECT_EQ(released(1, end_with("ran")), Lines{});
  pass(hours(1));
  EXPECT_EQ(seen([&] { tidy(step()); }), Lines{"released 1001 1"});
}

TEST_F(Events, free_slots_are_counted_after_each_event) {
  ask(slot(1, 3));
  ask(slot(2, 3));
  liveness.dead = {1, 2};

  EXPECT_EQ(seen([&] { ask(slot(3, 3)); }),
            (Lines{"expired 1001 2", "expired 1002 3", "granted 1003 2"}));
}

TEST_F(Events, free_slots_of_an_expired_lease_are_not_those_of_the_next_claim) {
  ask(slot(1, 3));
  liveness.dead = {1};

  EXPECT_EQ(seen([&] { ask(exclusive(2)); }),
            (Lines{"expired 1001 3", "granted 1002 0"}));
}

TEST_F(Events, a_lease_that_is_released_too_late_is_reported_as_expired) {
  ask(detached(1));
  const auto expires = now.wall + detached(1).ttl;
  pass(hours(1));

  EXPECT_EQ(released(1, std::nullopt), Lines{"expired 1001 1"});
  EXPECT_EQ(events[0].time, expires);
}

TEST_F(Events, shared_holders_leave_no_slot_free_until_the_last_one_releases) {
  EXPECT_EQ(seen([&] { ask(shared(1)); }), Lines{"granted 1001 0"});
  EXPECT_EQ(seen([&] { ask(shared(2)); }), Lines{"granted 1002 0"});
  EXPECT_EQ(released(1, std::nullopt), Lines{"released 1001 0"});
  EXPECT_EQ(released(2, std::nullopt), Lines{"released 1002 1"});
}

TEST_F(Events, a_lock_is_untidy_until_its_dead_holder_is_removed) {
  ask(exclusive(1));
  EXPECT_FALSE(is_untidy(state, now, liveness));
  liveness.dead.insert(1);
  EXPECT_TRUE(is_untidy(state, now, liveness));

  tidy(step());

  EXPECT_FALSE(is_untidy(state, now, liveness));
}

}  // namespace
}  // namespace dlock::rules
