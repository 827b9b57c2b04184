// The rules of claims that supersede or replace others, or do not join a long queue.

#include <gtest/gtest.h>

#include <algorithm>

#include "rules/look.hpp"
#include "tests/unit/lock_by_hand.hpp"

namespace dlock::rules {
namespace {

Claim superseding(Session who) {
  auto claim = exclusive(who);
  claim.supersedes = true;
  return claim;
}

Claim replacing(Session who) {
  auto claim = exclusive(who);
  claim.replaces = true;
  return claim;
}

Claim behind_less_than(unsigned waiters, Session who) {
  auto claim = exclusive(who);
  claim.max_queue = waiters;
  return claim;
}

class SupersedeRules : public ::testing::Test, protected LockByHand {
 protected:
  std::size_t place_of(const Claim& claim) {
    return std::get<Busy>(ask(claim, Queue::join)).place;
  }
  bool is_granted(const Claim& claim) {
    return std::holds_alternative<Grant>(ask(claim, Queue::join));
  }
  bool is_woken(Session who) const {
    return std::count(then.wake.begin(), then.wake.end(), who) > 0;
  }
};

TEST_F(SupersedeRules, dead_waiters_do_not_count_towards_max_queue) {
  ask(exclusive(1));
  ask(exclusive(2), Queue::join);
  liveness.dead.insert(2);

  EXPECT_GT(place_of(behind_less_than(1, 3)), 0u);
}

TEST_F(SupersedeRules, a_superseded_waiter_does_not_count_towards_max_queue) {
  ask(exclusive(1));
  ask(superseding(2), Queue::join);
  auto claim = superseding(3);
  claim.max_queue = 1;

  EXPECT_EQ(place_of(claim), 1u);
}

TEST_F(SupersedeRules, a_dead_waiter_is_not_counted_as_superseded) {
  ask(exclusive(1));
  ask(superseding(2), Queue::join);
  liveness.dead.insert(2);

  EXPECT_EQ(place_of(superseding(3)), 1u);

  EXPECT_EQ(state.superseded, 0u);
}

TEST_F(SupersedeRules, a_superseded_waiter_is_woken_and_learns_by_whom) {
  ask(exclusive(1));
  ask(superseding(2), Queue::join);

  ask(superseding(3), Queue::join);

  EXPECT_TRUE(is_woken(2));
  EXPECT_EQ(std::get<Superseded>(ask(superseding(2), Queue::join)).pid, 1003);
}

TEST_F(SupersedeRules, the_new_first_waiter_is_woken_to_watch_the_holder) {
  ask(exclusive(1));
  ask(superseding(2), Queue::join);
  ask(exclusive(3), Queue::join);

  ask(superseding(4), Queue::join);

  EXPECT_TRUE(is_woken(3));
}

TEST_F(SupersedeRules, a_superseded_waiter_is_forgotten_once_it_is_dead) {
  ask(exclusive(1));
  ask(superseding(2), Queue::join);
  ask(superseding(3), Queue::join);
  liveness.dead.insert(2);

  ask(exclusive(4));

  EXPECT_TRUE(state.answered.empty());
}

TEST_F(SupersedeRules, a_waiter_that_was_passed_over_is_superseded_by_a_grant) {
  ask(exclusive(1));
  ask(superseding(2), Queue::join);
  ask(exclusive(3), Queue::join);
  liveness.stopped.insert(2);
  release(1);
  release(3);
  ASSERT_TRUE(state.waiters.size() == 1 && !state.waiters[0].promised_until);

  EXPECT_TRUE(is_granted(superseding(4)));

  liveness.stopped.clear();
  EXPECT_TRUE(std::holds_alternative<Superseded>(ask(superseding(2), Queue::join)));
}

TEST_F(SupersedeRules, a_reader_that_supersedes_a_writer_joins_the_readers) {
  ask(shared(1));
  auto writer = superseding(2);
  ask(writer, Queue::join);
  auto reader = shared(3);
  reader.supersedes = true;

  EXPECT_TRUE(is_granted(reader));
}

TEST_F(SupersedeRules, the_replaced_holder_is_part_of_the_consequences) {
  ask(exclusive(1));

  ask(replacing(2), Queue::join);

  ASSERT_EQ(then.broken.size(), 1u);
  EXPECT_FALSE(then.broken[0].broken);
  EXPECT_TRUE(state.holders[0].broken);
}

TEST_F(SupersedeRules, the_replaced_holder_learns_who_took_the_lock) {
  ask(exclusive(1));

  ask(replacing(2), Queue::join);

  ASSERT_TRUE(state.holders[0].taken_by);
  EXPECT_EQ(*state.holders[0].taken_by, (Taker{"33", "web1", true}));
}

TEST_F(SupersedeRules, a_waiter_whose_grant_is_broken_at_once_learns_by_whom) {
  ask(exclusive(1));
  ask(exclusive(2), Queue::join);
  ask(replacing(3), Queue::join);
  release(1);

  ask(exclusive(2), Queue::join);

  ASSERT_TRUE(state.holders[0].taken_by);
  EXPECT_TRUE(state.holders[0].taken_by->replaces);
}

TEST_F(SupersedeRules,
       a_replacing_waiter_that_is_passed_over_takes_the_lock_from_nobody) {
  ask(exclusive(1));
  ask(replacing(2), Queue::join);
  ask(exclusive(3), Queue::join);
  liveness.stopped.insert(2);
  release(1);

  EXPECT_FALSE(std::get<Grant>(ask(exclusive(3), Queue::join)).broken);
}

TEST_F(SupersedeRules, a_replacing_waiter_that_continues_takes_the_lock_from_its_holder) {
  ask(exclusive(1));
  ask(replacing(2), Queue::join);
  ask(exclusive(3), Queue::join);
  liveness.stopped.insert(2);
  release(1);
  ask(exclusive(3), Queue::join);
  liveness.stopped.clear();

  ask(replacing(2), Queue::join);

  EXPECT_TRUE(state.holders[0].broken);
}

TEST_F(SupersedeRules, a_dead_replacing_waiter_takes_the_lock_from_nobody) {
  ask(exclusive(1));
  ask(exclusive(2), Queue::join);
  ask(replacing(3), Queue::join);
  liveness.dead.insert(3);
  release(1);

  EXPECT_FALSE(std::get<Grant>(ask(exclusive(2), Queue::join)).broken);
}

TEST_F(SupersedeRules, a_run_that_never_begins_counts_for_nobody) {
  ask(exclusive(1));
  ask(exclusive(2), Queue::join);
  ask(replacing(3), Queue::join);
  auto same = exclusive(4);
  same.dedupe = Dedupe{std::chrono::hours(1), true};
  ask(same, Queue::join);
  release(1);

  ask(exclusive(2), Queue::join);

  EXPECT_TRUE(state.answered.empty());
}

TEST_F(SupersedeRules,
       a_replacing_waiter_that_was_promised_a_slot_breaks_no_other_claim) {
  ask(slot(1, 2));
  ask(slot(2, 2));
  auto claim = slot(3, 2);
  claim.replaces = true;
  ask(claim, Queue::join);
  release(1);
  release(2);

  EXPECT_FALSE(std::get<Grant>(ask(slot(4, 2))).broken);
}

}  // namespace
}  // namespace dlock::rules
