// What every store does for --supersede, --replace and --max-queue.

#include <gtest/gtest.h>

#include <list>
#include <string>

#include "lease/holding.hpp"
#include "tests/contract/contender.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

RunEnd run_end() {
  RunEnd end;
  end.exit_code = 0;
  end.outcome = "ran";
  return end;
}

class Supersede : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& contender() {
    return contenders_.emplace_back(context_, *world_, claim_of("job"));
  }
  Contender& superseding() {
    auto& added = contender();
    added.claim.supersedes = true;
    return added;
  }
  // A release promises the lock to this waiter instead of granting it at once, which a
  // server may do for a plain claim.
  Contender& superseding_and_promised() {
    auto& added = superseding();
    added.claim.fence_floor = Fence{1};
    return added;
  }
  Contender& replacing() {
    auto& added = contender();
    added.claim.replaces = true;
    return added;
  }
  static Contender& with_mode(Contender& asks, Mode mode) {
    asks.claim.mode = mode;
    return asks;
  }
  static Contender& with_slots(Contender& asks, unsigned slots) {
    asks.claim.slots = slots;
    return asks;
  }
  Contender& behind_less_than(unsigned waiters) {
    auto& added = contender();
    added.claim.max_queue = waiters;
    return added;
  }
  Contender& detached(milliseconds ttl) {
    auto& added = contender();
    added.claim.attached = false;
    added.claim.ttl = ttl;
    return added;
  }

  static bool is_superseded(Contender& asks) {
    return std::holds_alternative<Superseded>(asks.ask(Queue::join));
  }
  static bool is_told_broken(Contender& holder) {
    return holder.renew() == Renewal::broken;
  }
  Answer wait_for(Contender& waiter) {
    return result_of(context_,
                     acquire(waiter.claimant(), {Clock::now() + seconds(20), {}, {}, {}},
                             waiter.wakeup));
  }
  std::size_t waiting() { return contender().inspect().waiters.size(); }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
};

INSTANTIATE_TEST_SUITE_P(stores, Supersede, ::testing::ValuesIn(kinds), name_of);

// max_queue

TEST_P(Supersede, a_claim_does_not_queue_behind_max_queue_waiters) {
  contender().granted();
  contender().queued();
  auto& other = behind_less_than(1);

  const auto answer = std::get<Busy>(other.ask(Queue::join));

  EXPECT_EQ(answer.place, 0u);
  EXPECT_EQ(answer.queued, 1u);
  EXPECT_EQ(waiting(), 1u);
}

TEST_P(Supersede, a_claim_that_waits_does_not_count_itself) {
  contender().granted();
  auto& waiter = behind_less_than(1);
  EXPECT_EQ(waiter.queued().place, 1u);
  contender().queued();

  EXPECT_EQ(waiter.queued().place, 1u);
}

TEST_P(Supersede, a_claim_with_a_max_queue_of_zero_is_granted_a_free_lock) {
  EXPECT_TRUE(std::holds_alternative<Grant>(behind_less_than(0).ask(Queue::join)));
}

TEST_P(Supersede, the_wait_ends_at_once_behind_max_queue_waiters) {
  contender().granted();
  contender().queued();

  EXPECT_TRUE(std::holds_alternative<Busy>(wait_for(behind_less_than(1))));
}

// supersedes

TEST_P(Supersede, a_newer_waiter_supersedes_an_older_one) {
  contender().granted();
  auto& older = superseding();
  older.queued();

  const auto place = superseding().queued().place;

  EXPECT_EQ(place, 1u);
  const auto by = std::get<Superseded>(older.ask(Queue::join));
  EXPECT_EQ(by.host, host_name());
  EXPECT_EQ(by.pid, ::getpid());
  EXPECT_EQ(waiting(), 1u);
}

TEST_P(Supersede, a_superseded_waiter_remains_superseded_however_often_it_asks) {
  contender().granted();
  auto& older = superseding();
  older.queued();
  auto& newer = superseding();
  newer.queued();

  EXPECT_TRUE(is_superseded(older));
  EXPECT_TRUE(is_superseded(older));
  EXPECT_TRUE(std::holds_alternative<Superseded>(older.ask(Queue::stay_out)));
  EXPECT_EQ(newer.queued().place, 1u);
}

TEST_P(Supersede, only_waiters_that_supersede_are_superseded) {
  auto& holder = superseding();
  holder.granted();
  auto& waiter = contender();
  waiter.queued();

  EXPECT_EQ(superseding().queued().place, 2u);

  EXPECT_EQ(waiter.queued().place, 1u);
  EXPECT_EQ(holder.renew(), Renewal::confirmed);
}

TEST_P(Supersede, a_claim_that_does_not_wait_supersedes_nobody) {
  contender().granted();
  auto& older = superseding();
  older.queued();

  EXPECT_TRUE(superseding().is_busy());

  EXPECT_EQ(older.queued().place, 1u);
}

TEST_P(Supersede, a_claim_that_finds_the_queue_too_long_supersedes_nobody) {
  contender().granted();
  contender().queued();
  auto& older = superseding();
  older.queued();
  auto& newer = superseding();
  newer.claim.max_queue = 1;

  EXPECT_EQ(newer.queued().place, 0u);

  EXPECT_EQ(older.queued().place, 2u);
}

TEST_P(Supersede, a_waiter_that_was_promised_the_lock_can_still_be_superseded) {
  auto& holder = contender();
  holder.granted();
  auto& older = superseding_and_promised();
  older.queued();
  holder.release(run_end());
  auto& newer = superseding();

  EXPECT_TRUE(std::holds_alternative<Grant>(newer.ask(Queue::join)));

  EXPECT_TRUE(is_superseded(older));
}

TEST_P(Supersede, the_promised_lock_then_goes_to_the_next_waiter) {
  auto& holder = contender();
  holder.granted();
  auto& older = superseding_and_promised();
  older.queued();
  auto& next = contender();
  next.queued();
  holder.release(run_end());

  EXPECT_EQ(superseding().queued().place, 2u);

  EXPECT_TRUE(is_superseded(older));
  EXPECT_TRUE(std::holds_alternative<Grant>(next.ask(Queue::join)));
}

TEST_P(Supersede, a_waiter_that_is_superseded_does_not_count_for_max_queue) {
  contender().granted();
  superseding().queued();
  auto& newer = superseding();
  newer.claim.max_queue = 1;

  EXPECT_EQ(newer.queued().place, 1u);
}

TEST_P(Supersede, a_superseded_waiter_does_not_return_when_the_newer_one_leaves) {
  contender().granted();
  auto& older = superseding();
  older.queued();
  auto& newer = superseding();
  newer.queued();

  newer.release();

  EXPECT_TRUE(is_superseded(older));
  EXPECT_EQ(waiting(), 0u);
}

TEST_P(Supersede, a_reader_that_supersedes_a_writer_joins_the_readers) {
  with_mode(contender(), Mode::shared).granted();
  superseding().queued();
  auto& reader = with_mode(superseding(), Mode::shared);

  EXPECT_TRUE(std::holds_alternative<Grant>(reader.ask(Queue::join)));
}

TEST_P(Supersede, a_superseded_waiter_is_woken) {
  contender().granted();
  auto& older = superseding();
  older.queued();
  const Patience patience{Clock::now() + seconds(20), {}, {}, {}};  // outlives the wait
  Task<Answer> wait(context_, acquire(older.claimant(), patience, older.wakeup));

  const auto before = Clock::now();
  superseding().queued();

  EXPECT_TRUE(std::holds_alternative<Superseded>(wait.result()));
  EXPECT_LT(Clock::now() - before, milliseconds(900));
}

TEST_P(Supersede, a_release_by_a_superseded_waiter_changes_nothing) {
  contender().granted();
  auto& older = superseding();
  older.queued();
  auto& newer = superseding();
  newer.queued();

  older.release();

  EXPECT_EQ(newer.queued().place, 1u);
}

// replaces

TEST_P(Supersede, a_replacing_waiter_breaks_the_lease_of_the_holder) {
  auto& holder = contender();
  holder.granted();

  const auto busy = replacing().queued();

  ASSERT_EQ(busy.holders.size(), 1u);
  EXPECT_TRUE(busy.holders[0].broken);
  EXPECT_TRUE(is_told_broken(holder));
  ASSERT_TRUE(holder.claimant().taken_by());
  EXPECT_TRUE(holder.claimant().taken_by()->replaces);
  EXPECT_EQ(holder.claimant().taken_by()->host, host_name());
}

TEST_P(Supersede, a_replaced_holder_keeps_the_lock_until_it_releases_it) {
  auto& holder = contender();
  holder.granted();
  auto& replaces = replacing();
  replaces.queued();
  EXPECT_TRUE(std::holds_alternative<Busy>(replaces.ask(Queue::join)));
  auto end = run_end();
  end.lost = Loss::broken;

  EXPECT_EQ(holder.release(end), Release::released);

  EXPECT_TRUE(std::holds_alternative<Grant>(replaces.ask(Queue::join)));
}

TEST_P(Supersede, a_replacing_claim_that_does_not_wait_breaks_nothing) {
  auto& holder = contender();
  holder.granted();

  EXPECT_TRUE(replacing().is_busy());

  EXPECT_EQ(holder.renew(), Renewal::confirmed);
}

TEST_P(Supersede, a_waiter_before_a_replacing_one_gets_a_grant_that_is_already_broken) {
  auto& holder = contender();
  holder.granted();
  auto& before = contender();
  before.queued();
  auto& replaces = replacing();
  replaces.queued();
  holder.release();

  const auto grant = std::get<Grant>(before.ask(Queue::join));

  EXPECT_TRUE(grant.broken);
  ASSERT_TRUE(before.claimant().taken_by());
  EXPECT_TRUE(before.claimant().taken_by()->replaces);
  EXPECT_TRUE(is_told_broken(before));
  before.release();
  EXPECT_FALSE(std::get<Grant>(replaces.ask(Queue::join)).broken);
}

TEST_P(Supersede, a_repeated_request_finds_the_grant_still_broken) {
  auto& holder = contender();
  holder.granted();
  auto& before = contender();
  before.queued();
  replacing().queued();
  holder.release();
  const auto fence = std::get<Grant>(before.ask(Queue::join)).fence;

  const auto again = before.granted();

  EXPECT_EQ(again.fence, fence);
  EXPECT_TRUE(again.broken);
}

TEST_P(Supersede,
       the_first_of_two_replacing_waiters_gets_a_grant_that_is_already_broken) {
  auto& holder = contender();
  holder.granted();
  auto& first = replacing();
  first.queued();
  auto& second = replacing();
  second.queued();
  holder.release();

  EXPECT_TRUE(std::get<Grant>(first.ask(Queue::join)).broken);

  first.release();
  EXPECT_FALSE(std::get<Grant>(second.ask(Queue::join)).broken);
}

TEST_P(Supersede, a_waiter_that_replaces_can_be_superseded) {
  auto& holder = contender();
  holder.granted();
  auto& older = superseding();
  older.claim.replaces = true;
  older.queued();
  auto& newer = superseding();
  newer.claim.replaces = true;
  newer.queued();
  auto end = run_end();
  end.lost = Loss::broken;
  holder.release(end);

  EXPECT_TRUE(is_superseded(older));
  EXPECT_FALSE(std::get<Grant>(newer.ask(Queue::join)).broken);
}

TEST_P(Supersede, a_run_that_never_begins_counts_for_nobody) {
  auto& holder = with_mode(contender(), Mode::shared);
  holder.granted();
  auto& before = contender();
  before.queued();
  replacing().queued();
  auto& same = contender();
  same.claim.dedupe = Dedupe{hours(1), false};
  same.queued();
  holder.release();

  EXPECT_TRUE(std::get<Grant>(before.ask(Queue::join)).broken);

  EXPECT_TRUE(std::holds_alternative<Busy>(same.ask(Queue::join)));
}

TEST_P(Supersede, a_replacing_waiter_that_left_the_queue_breaks_no_grant) {
  auto& holder = contender();
  holder.granted();
  auto& before = contender();
  before.queued();
  auto& replaces = replacing();
  replaces.queued();
  replaces.release();
  holder.release();

  EXPECT_FALSE(std::get<Grant>(before.ask(Queue::join)).broken);
}

TEST_P(Supersede, a_detached_lease_is_freed_at_once) {
  auto& holder = detached(hours(1));
  holder.granted();

  EXPECT_TRUE(std::holds_alternative<Grant>(replacing().ask(Queue::join)));

  EXPECT_NE(holder.renew(), Renewal::confirmed);
}

TEST_P(Supersede, a_detached_lease_granted_before_a_replacing_waiter_is_freed) {
  auto& holder = contender();
  holder.granted();
  auto& before = detached(hours(1));
  before.queued();
  auto& replaces = replacing();
  replaces.queued();
  holder.release();
  EXPECT_TRUE(std::holds_alternative<Grant>(before.ask(Queue::join)));

  EXPECT_TRUE(std::holds_alternative<Grant>(wait_for(replaces)));
}

TEST_P(Supersede, a_lock_kept_by_min_hold_is_freed_at_once) {
  auto& holder = contender();
  holder.claim.min_hold = hours(1);
  holder.granted();
  holder.release(run_end());

  EXPECT_TRUE(std::holds_alternative<Grant>(replacing().ask(Queue::join)));
}

TEST_P(Supersede, an_outer_run_is_not_replaced) {
  auto& outer = contender();
  const auto fence = outer.granted().fence;
  auto& inner = replacing();
  inner.claim.outer_fences = {fence};

  EXPECT_TRUE(std::holds_alternative<HeldByOuterRun>(inner.ask(Queue::join)));

  EXPECT_EQ(outer.renew(), Renewal::confirmed);
}

TEST_P(Supersede, all_shared_holders_are_replaced) {
  auto& first = with_mode(contender(), Mode::shared);
  first.granted();
  auto& second = with_mode(contender(), Mode::shared);
  second.granted();

  replacing().queued();

  EXPECT_TRUE(is_told_broken(first));
  EXPECT_TRUE(is_told_broken(second));
}

TEST_P(Supersede, all_holders_of_slots_are_replaced) {
  auto& first = with_slots(contender(), 2);
  first.granted();
  auto& second = with_slots(contender(), 2);
  second.granted();

  with_slots(replacing(), 2).queued();

  EXPECT_TRUE(is_told_broken(first));
  EXPECT_TRUE(is_told_broken(second));
}

TEST_P(Supersede, a_replacing_claim_that_is_granted_a_free_slot_breaks_nothing) {
  auto& holder = with_slots(contender(), 2);
  holder.granted();

  EXPECT_TRUE(std::holds_alternative<Grant>(with_slots(replacing(), 2).ask(Queue::join)));

  EXPECT_EQ(holder.renew(), Renewal::confirmed);
}

TEST_P(Supersede, a_replacing_waiter_that_can_take_a_free_slot_breaks_no_grant) {
  auto& first = with_slots(contender(), 2);
  first.granted();
  auto& second = with_slots(contender(), 2);
  second.granted();
  with_slots(replacing(), 2).queued();
  first.release();
  second.release();

  EXPECT_FALSE(with_slots(contender(), 2).granted().broken);
}

// Servers only: keys of the lock and places in the queue

class SupersedeOnServer : public Supersede {};

INSTANTIATE_TEST_SUITE_P(stores, SupersedeOnServer, ::testing::Values(kinds[2]), name_of);

TEST_P(SupersedeOnServer, a_foreign_holder_loses_the_lock) {
  RedisWorld::command("SET dlock:{job} another NX PX 60000");

  EXPECT_TRUE(std::holds_alternative<Grant>(replacing().ask(Queue::join)));
}

TEST_P(SupersedeOnServer, a_waiter_whose_record_was_deleted_is_still_superseded) {
  contender().granted();
  auto& older = superseding();
  older.queued();
  auto& newer = superseding();
  newer.queued();
  // As after a stop of more than PLACE_MS: the record under its token has expired.
  RedisWorld::command("DEL dlock:{job}:d:" + text_of(older.claim.token));

  EXPECT_TRUE(is_superseded(older));

  EXPECT_EQ(newer.queued().place, 1u);
}

TEST_P(SupersedeOnServer, a_newer_waiter_supersedes_an_older_one_in_a_deleted_queue) {
  auto& holder = contender();
  holder.granted();
  auto& older = superseding();
  older.queued();
  auto& newer = superseding();
  RedisWorld::command("DEL dlock:{job}:q dlock:{job}:w dlock:{job}:s");
  newer.queued();
  RedisWorld::command("DEL dlock:{job}:q dlock:{job}:w");

  EXPECT_TRUE(is_superseded(older));
}

TEST_P(SupersedeOnServer,
       a_waiter_whose_place_was_deleted_gets_it_again_in_a_long_queue) {
  contender().granted();
  auto& waiter = behind_less_than(1);
  waiter.queued();
  RedisWorld::command("DEL dlock:{job}:q dlock:{job}:w");
  contender().queued();

  EXPECT_EQ(waiter.queued().place, 1u);
}

}  // namespace
}  // namespace dlock
