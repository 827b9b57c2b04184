// Every promise of lock/store.hpp, tested with every store.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <list>
#include <string>
#include <vector>

#include "tests/contract/contender.hpp"
#include "tests/contract/faulty_store.hpp"

namespace dlock {
namespace {

using std::chrono::seconds;

RunEnd exit_with(int code) {
  RunEnd end;
  end.exit_code = code;
  end.outcome = "ran";
  end.duration = milliseconds(1500);
  return end;
}

class Witness final : public LeaseWatcher {
 public:
  void extend(Clock::time_point) override {}
  void reclaimed() override { again = true; }
  void forfeit(Loss loss) override { told = loss; }

  bool again = false;
  std::optional<Loss> told;
};

class StoreContract : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& contender(const Claim& claim, milliseconds timeout = usual_timeout) {
    return contenders_.emplace_back(context_, *world_, claim, timeout);
  }
  Contender& exclusive(const std::string& name = "job") {
    return contender(claim_of(name));
  }
  Contender& shared(const std::string& name = "job") {
    auto claim = claim_of(name);
    claim.mode = Mode::shared;
    return contender(claim);
  }
  Contender& slot(unsigned slots) {
    auto claim = claim_of("job");
    claim.slots = slots;
    return contender(claim);
  }
  static Contender& inside(Contender& inner, const Grant& outer) {
    inner.claim.outer_fences.push_back(outer.fence);
    return inner;
  }

  // A claim whose lease is renewed several times a second, where leases expire.
  static Contender& brief(Contender& contender) {
    contender.claim.ttl = milliseconds(600);
    return contender;
  }

  // As if its process had been killed.
  void kill(Contender& contender) {
    contenders_.remove_if([&](const Contender& c) { return &c == &contender; });
  }

  std::vector<LockInfo> list(const std::string& name_space, const std::string& but = "") {
    auto& reader = exclusive();
    return result_of(context_,
                     reader.store->inspector().list(
                         name_space, [&](const std::string& name) { return name != but; },
                         reader.wakeup));
  }

  static std::vector<std::string> names_of(const std::vector<LockInfo>& locks) {
    std::vector<std::string> names;
    for (const auto& lock : locks) names.push_back(lock.lock.name);
    return names;
  }

  static Failure::Kind failure_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Failure& failure) {
      return failure.kind();
    }
    throw std::logic_error("did not fail");
  }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
};

// In the order of their bytes.
// clang-format off
const std::string unusual_names[] = {
    "\"", "$(a)", "%", "%20", "%61", "'", "*", "-", "--", ".", "..", "../x", ":h",
    "?[a-z]", "A", "a", "a b", "a%20b", "a/b", "a:b", "a:s", "a=b", "a\\b", "ab",
    "a}{b", "nai\xCC\x88ve", "na\xC3\xAFve", "{", "{a}", "{}", "}"};
// clang-format on

INSTANTIATE_TEST_SUITE_P(stores, StoreContract, ::testing::ValuesIn(kinds), name_of);

// The store itself

TEST_P(StoreContract, all_clients_of_a_store_report_the_same_url) {
  EXPECT_FALSE(exclusive().store->url().empty());
  EXPECT_EQ(exclusive().store->url(), exclusive().store->url());
}

TEST_P(StoreContract, excludes_other_claims) {
  EXPECT_TRUE(exclusive().store->protects());
}

// ask: the lock is free, held by another claim, or by this one

TEST_P(StoreContract, grants_a_free_lock) { EXPECT_TRUE(exclusive().is_granted()); }

TEST_P(StoreContract, a_held_lock_is_busy_for_another) {
  exclusive().granted();

  EXPECT_TRUE(exclusive().is_busy());
}

TEST_P(StoreContract, busy_says_who_holds_the_lock) {
  auto& holder = exclusive();
  holder.claim.label = "nightly";
  const auto grant = holder.granted();

  const auto busy = std::get<Busy>(exclusive().ask());

  ASSERT_EQ(busy.holders.size(), 1u);
  EXPECT_EQ(busy.holders[0].fence, grant.fence);
  EXPECT_EQ(busy.holders[0].pid, ::getpid());
  EXPECT_EQ(busy.holders[0].label, "nightly");
  EXPECT_EQ(busy.holders[0].command, holder.claim.command);
  EXPECT_FALSE(busy.holders[0].host.empty());
  EXPECT_FALSE(busy.holders[0].user.empty());
}

TEST_P(StoreContract, a_repeated_claim_finds_its_own_grant) {
  auto& holder = exclusive();
  const auto first = holder.granted();

  const auto second = holder.granted();

  EXPECT_EQ(second.fence, first.fence);
  EXPECT_EQ(second.slot, first.slot);
}

TEST_P(StoreContract, a_repeated_claim_finds_its_own_slot) {
  auto& first = slot(3);
  first.granted();
  auto& second = slot(3);
  const auto grant = second.granted();
  first.release();

  const auto again = second.granted();

  EXPECT_EQ(again.slot, grant.slot);
  EXPECT_EQ(again.fence, grant.fence);
}

TEST_P(StoreContract, a_claim_whose_reply_was_lost_finds_its_own_grant) {
  auto& holder = exclusive();
  FaultyClaimant faulty(
      holder.claimant(),
      {{1, {Failure(Failure::Kind::unreachable, "lost"), Fault::When::after}}});
  const auto ask = [&] {
    return result_of(context_, faulty.ask(Queue::stay_out, holder.wakeup));
  };

  EXPECT_THROW(ask(), Failure);
  EXPECT_EQ(std::get<Grant>(ask()).fence, holder.granted().fence);
}

class FenceFloor : public StoreContract {};

INSTANTIATE_TEST_SUITE_P(stores, FenceFloor,
                         ::testing::ValuesIn(kinds_with(&Kind::raises_fences)), name_of);

TEST_P(FenceFloor, the_fence_of_a_grant_is_above_the_floor_of_its_claim) {
  const auto in_an_hour = wall_now() + std::chrono::hours(1);
  auto& ahead = exclusive();
  ahead.claim.fence_floor.number = static_cast<std::uint64_t>(in_an_hour.count());

  const auto fence = ahead.granted().fence;

  EXPECT_GT(fence, ahead.claim.fence_floor);
  ahead.release();
  EXPECT_GT(exclusive().granted().fence, fence);
}

TEST_P(FenceFloor, the_fence_of_a_waiter_is_above_its_floor) {
  auto& holder = exclusive();
  holder.granted();
  auto& ahead = exclusive();
  ahead.claim.fence_floor.number =
      static_cast<std::uint64_t>((wall_now() + std::chrono::hours(1)).count());
  ahead.queued();

  holder.release();

  EXPECT_GT(ahead.granted().fence, ahead.claim.fence_floor);
}

TEST_P(StoreContract, the_fence_of_each_grant_is_greater_than_that_of_the_one_before) {
  Fence last;
  for (int i = 0; i < 20; ++i) {
    auto& holder = exclusive();
    const auto fence = holder.granted().fence;
    holder.release();

    EXPECT_GT(fence, last);
    last = fence;
  }
}

TEST_P(StoreContract, a_claim_that_is_granted_again_has_a_greater_fence) {
  auto& holder = exclusive();
  const auto first = holder.granted().fence;
  holder.release();

  EXPECT_GT(holder.granted().fence, first);
}

TEST_P(StoreContract, the_store_keeps_a_lease_longer_than_its_holder_by_the_lock_delay) {
  auto& holder = exclusive();
  holder.claim.lock_delay = seconds(100);
  const auto grant = holder.granted();
  const auto again = holder.granted();

  const bool can_expire = holder.store->leases_expire();
  const auto end = Clock::now() + holder.claim.ttl;
  EXPECT_EQ(grant.deadline < end, can_expire);
  EXPECT_EQ(again.deadline < end, can_expire);
  const auto kept = holder.inspect().holders.at(0).expires_in;
  ASSERT_EQ(kept.has_value(), can_expire);
  EXPECT_GE(kept.value_or(seconds(130)), seconds(129));
}

// ask: which lock

TEST_P(StoreContract, locks_with_different_names_are_independent) {
  for (const auto& name : unusual_names) {
    EXPECT_TRUE(exclusive(name).is_granted()) << name;
    EXPECT_TRUE(exclusive(name).is_busy()) << name;
    kill(contenders_.back());
  }

  EXPECT_EQ(names_of(list("dlock")),
            std::vector<std::string>(std::begin(unusual_names), std::end(unusual_names)));
}

TEST_P(StoreContract, locks_in_different_namespaces_are_independent) {
  exclusive().granted();
  auto& other = exclusive();
  other.claim.lock.name_space = "other";

  EXPECT_TRUE(other.is_granted());
}

TEST_P(StoreContract, namespaces_and_names_are_never_confused) {
  auto& first = exclusive();
  first.claim.lock = {"a", "b:c"};
  first.granted();
  auto& second = exclusive();
  second.claim.lock = {"a:b", "c"};

  EXPECT_TRUE(second.is_granted());
}

TEST_P(StoreContract, the_longest_names_work_like_any_other) {
  const LockName longest{std::string(255, 'n'), std::string(255, 'x')};
  auto& holder = exclusive();
  holder.claim.lock = longest;
  auto& other = exclusive();
  other.claim.lock = longest;
  auto& neighbour = exclusive();
  neighbour.claim.lock = {longest.name_space, std::string(254, 'x') + "y"};

  EXPECT_TRUE(holder.is_granted());
  EXPECT_TRUE(other.is_busy());
  EXPECT_TRUE(neighbour.is_granted());
}

// ask: the queue

TEST_P(StoreContract, a_claim_that_does_not_join_has_no_place_in_the_queue) {
  auto& holder = exclusive();
  holder.granted();

  const auto busy = std::get<Busy>(exclusive().ask(Queue::stay_out));

  EXPECT_EQ(busy.place, 0u);
  EXPECT_EQ(holder.inspect().waiters.size(), 0u);
}

TEST_P(StoreContract, a_claim_that_joins_has_a_place_behind_all_others) {
  exclusive().granted();

  EXPECT_EQ(exclusive().queued().place, 1u);
  EXPECT_EQ(exclusive().queued().place, 2u);
  EXPECT_EQ(exclusive().queued().place, 3u);
}

TEST_P(StoreContract, a_claim_that_joins_counts_as_a_waiter) {
  exclusive().granted();
  exclusive().queued();

  EXPECT_EQ(exclusive().queued().queued, 2u);
}

TEST_P(StoreContract, a_repeated_claim_keeps_its_place) {
  exclusive().granted();
  auto& first = exclusive();
  first.queued();
  exclusive().queued();

  const auto again = first.queued();

  EXPECT_EQ(again.place, 1u);
  EXPECT_EQ(again.queued, 2u);
}

TEST_P(StoreContract, a_free_lock_is_granted_to_a_claim_that_would_queue) {
  EXPECT_TRUE(std::holds_alternative<Grant>(exclusive().ask(Queue::join)));
}

TEST_P(StoreContract, a_newcomer_does_not_overtake_a_waiter) {
  auto& holder = exclusive();
  holder.granted();
  exclusive().queued();
  holder.release();

  EXPECT_TRUE(exclusive().is_busy());
}

TEST_P(StoreContract, waiters_are_granted_the_lock_in_the_order_of_their_arrival) {
  auto* holder = &exclusive();
  holder->granted();
  std::vector<Contender*> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.push_back(&exclusive());
    waiters.back()->queued();
  }

  for (auto* next : waiters) {
    holder->release();
    for (auto* waiter : waiters) {
      EXPECT_TRUE(waiter == next || waiter->is_busy());
    }
    EXPECT_TRUE(next->is_granted());
    holder = next;
  }
  EXPECT_TRUE(holder->inspect().waiters.empty());
}

TEST_P(StoreContract, a_dead_waiter_is_passed_over) {
  auto& holder = exclusive();
  holder.granted();
  auto& gone = brief(exclusive());
  gone.queued();
  auto& next = exclusive();
  next.queued();
  kill(gone);
  // A waiter that has just asked counts as alive if the lock was held only briefly.
  const auto quick_until = Clock::now() + milliseconds(20);
  ASSERT_TRUE(eventually(context_, [&] { return Clock::now() > quick_until; }));
  holder.release();

  EXPECT_TRUE(eventually(context_, [&] { return next.is_granted(); }));
}

TEST_P(StoreContract, the_lock_of_a_dead_holder_goes_to_the_first_waiter) {
  auto& gone = exclusive();
  gone.claim.ttl = milliseconds(500);
  gone.granted();
  auto& next = exclusive();
  next.queued();
  kill(gone);

  EXPECT_TRUE(eventually(context_, [&] { return next.is_granted(); }));
}

// ask: slots

TEST_P(StoreContract, as_many_claims_are_granted_as_there_are_slots_and_no_more) {
  EXPECT_TRUE(slot(3).is_granted());
  EXPECT_TRUE(slot(3).is_granted());
  EXPECT_TRUE(slot(3).is_granted());
  EXPECT_TRUE(slot(3).is_busy());
}

TEST_P(StoreContract, holders_have_different_slots) {
  Fence last;
  for (unsigned number = 0; number < 3; ++number) {
    const auto grant = slot(3).granted();

    EXPECT_EQ(grant.slot, number);
    EXPECT_GT(grant.fence, last);
    last = grant.fence;
  }
}

TEST_P(StoreContract, a_slot_that_was_released_is_granted_again) {
  slot(3).granted();
  auto& second = slot(3);
  second.granted();
  slot(3).granted();
  second.release();

  EXPECT_EQ(slot(3).granted().slot, 1u);
}

TEST_P(StoreContract, a_slot_goes_to_the_first_waiter) {
  auto& first = slot(2);
  first.granted();
  slot(2).granted();
  auto& waiter = slot(2);
  waiter.queued();
  first.release();

  EXPECT_TRUE(slot(2).is_busy());
  EXPECT_TRUE(waiter.is_granted());
}

TEST_P(StoreContract, each_slot_that_becomes_free_goes_to_one_waiter) {
  auto& first = slot(2);
  first.granted();
  auto& second = slot(2);
  second.granted();
  auto& third = slot(2);
  third.queued();
  auto& fourth = slot(2);
  fourth.queued();

  first.release();
  EXPECT_TRUE(fourth.is_busy());
  second.release();

  EXPECT_TRUE(slot(2).is_busy());
  EXPECT_TRUE(fourth.is_granted());
  EXPECT_TRUE(third.is_granted());
}

TEST_P(StoreContract, a_slot_for_which_nobody_waits_is_granted_to_a_newcomer) {
  auto& first = slot(2);
  first.granted();
  auto& second = slot(2);
  second.granted();
  auto& waiter = slot(2);
  waiter.queued();
  first.release();
  second.release();

  EXPECT_TRUE(slot(2).is_granted());
  EXPECT_TRUE(waiter.is_granted());
}

TEST_P(StoreContract, another_number_of_slots_is_refused_while_the_lock_is_in_use) {
  auto& holder = slot(3);
  holder.granted();

  EXPECT_EQ(std::get<SlotsDiffer>(slot(2).ask()).in_use, 3u);
  EXPECT_EQ(std::get<SlotsDiffer>(exclusive().ask()).in_use, 3u);
  EXPECT_EQ(std::get<SlotsDiffer>(shared().ask()).in_use, 3u);
  EXPECT_EQ(std::get<SlotsDiffer>(slot(4).ask(Queue::join)).in_use, 3u);
  EXPECT_TRUE(holder.inspect().waiters.empty());
}

TEST_P(StoreContract, another_number_of_slots_is_refused_while_somebody_waits) {
  auto& first = slot(2);
  first.granted();
  auto& second = slot(2);
  second.granted();
  slot(2).queued();
  first.release();
  second.release();

  EXPECT_EQ(std::get<SlotsDiffer>(slot(3).ask()).in_use, 2u);
}

TEST_P(StoreContract, another_number_of_slots_is_accepted_when_nobody_uses_the_lock) {
  auto& holder = slot(3);
  holder.granted();
  holder.release();

  EXPECT_EQ(holder.inspect().slots, 1u);
  EXPECT_TRUE(slot(2).is_granted());
}

// ask: shared

TEST_P(StoreContract, readers_hold_together) {
  const auto first = shared().granted();
  const auto second = shared().granted();

  EXPECT_EQ(first.slot, 0u);
  EXPECT_EQ(second.slot, 0u);
  EXPECT_GT(second.fence, first.fence);
}

TEST_P(StoreContract, readers_and_writers_exclude_each_other) {
  auto& reader = shared();
  reader.granted();
  EXPECT_TRUE(exclusive().is_busy());
  reader.release();

  exclusive().granted();
  EXPECT_TRUE(shared().is_busy());
}

TEST_P(StoreContract, a_waiting_writer_blocks_readers_that_come_later) {
  shared().granted();
  exclusive().queued();

  EXPECT_TRUE(shared().is_busy());
}

TEST_P(StoreContract, readers_in_the_queue_are_granted_together) {
  auto& writer = exclusive();
  writer.granted();
  auto& first = shared();
  first.queued();
  auto& second = shared();
  second.queued();
  writer.release();

  EXPECT_TRUE(second.is_granted());
  EXPECT_TRUE(first.is_granted());
}

TEST_P(StoreContract, a_reader_behind_a_writer_does_not_join_the_readers_before_it) {
  auto& holder = exclusive();
  holder.granted();
  auto& reader = shared();
  reader.queued();
  auto& writer = exclusive();
  writer.queued();
  auto& later = shared();
  later.queued();

  holder.release();
  EXPECT_TRUE(later.is_busy());
  EXPECT_TRUE(reader.is_granted());
  EXPECT_TRUE(later.is_busy());
  reader.release();

  EXPECT_TRUE(later.is_busy());
  EXPECT_TRUE(writer.is_granted());
}

TEST_P(StoreContract, a_lock_that_a_reader_can_take_now_excludes_writers_and_no_readers) {
  auto& holder = exclusive();
  holder.granted();
  auto& reader = shared();
  reader.queued();
  holder.release();

  EXPECT_TRUE(exclusive().is_busy());
  EXPECT_TRUE(shared().is_granted());
  EXPECT_TRUE(reader.is_granted());
}

TEST_P(StoreContract, a_writer_that_stops_waiting_lets_the_readers_behind_it_in) {
  shared().granted();
  auto& writer = exclusive();
  writer.queued();
  auto& reader = shared();
  reader.queued();
  Task sleep(context_, with_result(reader.claimant().await_turn(endless(reader.wakeup))));

  writer.release();
  sleep.result();

  EXPECT_TRUE(reader.is_granted());
}

TEST_P(StoreContract, a_writer_is_granted_the_lock_when_the_last_reader_releases) {
  auto& first = shared();
  first.granted();
  auto& second = shared();
  second.granted();
  auto& writer = exclusive();
  writer.queued();

  first.release();
  EXPECT_TRUE(writer.is_busy());
  second.release();
  EXPECT_TRUE(writer.is_granted());
}

// ask: inside an outer run

TEST_P(StoreContract, an_inner_run_does_not_wait_for_the_lock_of_its_outer_run) {
  const auto outer = exclusive().granted();

  auto& inner = inside(exclusive(), outer);
  const auto answer = inner.ask(Queue::join);

  EXPECT_EQ(std::get<HeldByOuterRun>(answer).fence, outer.fence);
  EXPECT_TRUE(inner.inspect().waiters.empty());
}

TEST_P(StoreContract, an_outer_run_that_is_over_does_not_count) {
  auto& holder = exclusive();
  const auto outer = holder.granted();
  holder.release();
  exclusive().granted();

  EXPECT_TRUE(inside(exclusive(), outer).is_busy());
}

TEST_P(StoreContract, a_reader_inside_a_writer_does_not_wait) {
  const auto outer = exclusive().granted();

  EXPECT_TRUE(std::holds_alternative<HeldByOuterRun>(inside(shared(), outer).ask()));
}

TEST_P(StoreContract, a_writer_inside_a_reader_does_not_wait) {
  const auto outer = shared().granted();
  EXPECT_TRUE(std::holds_alternative<HeldByOuterRun>(inside(exclusive(), outer).ask()));

  shared().granted();
  EXPECT_TRUE(std::holds_alternative<HeldByOuterRun>(inside(exclusive(), outer).ask()));
}

TEST_P(StoreContract, a_reader_inside_a_reader_is_granted_even_before_a_waiting_writer) {
  auto& reader = shared();
  const auto outer = reader.granted();
  auto& writer = exclusive();
  writer.queued();
  auto& inner = inside(shared(), outer);

  EXPECT_TRUE(inner.is_granted());
  inner.release();
  EXPECT_TRUE(writer.is_busy());
  reader.release();
  EXPECT_TRUE(writer.is_granted());
}

TEST_P(StoreContract, another_slot_is_granted_inside_an_outer_run) {
  const auto outer = slot(2).granted();

  EXPECT_TRUE(inside(slot(2), outer).is_granted());
}

TEST_P(StoreContract, an_inner_run_does_not_wait_if_its_outer_runs_hold_all_slots) {
  const auto first = slot(2).granted();
  const auto second = inside(slot(2), first).granted();
  auto& inner = inside(inside(slot(2), first), second);

  EXPECT_TRUE(std::holds_alternative<HeldByOuterRun>(inner.ask(Queue::join)));
}

TEST_P(StoreContract, an_inner_run_can_wait_for_a_slot_that_others_hold) {
  const auto outer = slot(2).granted();
  auto& other = slot(2);
  other.granted();

  EXPECT_EQ(inside(slot(2), outer).queued().place, 1u);

  other.release();  // now that waiter can take it
  EXPECT_EQ(inside(slot(2), outer).queued().place, 2u);
}

// await_turn

TEST_P(StoreContract, a_waiter_sleeps_no_longer_than_its_wait) {
  exclusive().granted();
  auto& waiter = exclusive();
  waiter.queued();

  result_of(context_,
            waiter.claimant().await_turn(waiter.wakeup.within(milliseconds(20))));
}

TEST_P(StoreContract, a_waiter_that_is_told_to_stop_does_so_at_once) {
  exclusive().granted();
  auto& waiter = exclusive();
  waiter.queued();
  // A sleep may end early by itself, so the test can only check that it ends.
  Task sleep(context_, with_result(waiter.claimant().await_turn(endless(waiter.wakeup))));

  waiter.wakeup.give_up(true);

  try {
    sleep.result();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::interrupted);
  }
}

TEST_P(StoreContract, a_release_wakes_the_first_waiter) {
  auto& holder = exclusive();
  holder.granted();
  auto& waiter = exclusive();
  waiter.queued();
  Task sleep(context_, with_result(waiter.claimant().await_turn(endless(waiter.wakeup))));

  holder.release();
  sleep.result();

  EXPECT_TRUE(waiter.is_granted());
}

// release

TEST_P(StoreContract, a_released_lock_is_free) {
  auto& holder = exclusive();
  holder.granted();

  EXPECT_EQ(holder.release(), Release::released);
  EXPECT_TRUE(exclusive().is_granted());
}

TEST_P(StoreContract, never_releases_the_lock_of_another_holder) {
  exclusive().granted();
  auto& other = exclusive();
  other.ask();

  EXPECT_EQ(other.release(exit_with(0)), Release::not_ours);
  EXPECT_TRUE(exclusive().is_busy());
}

TEST_P(StoreContract, the_release_of_a_claim_that_never_asked_does_nothing) {
  auto& holder = exclusive();
  holder.granted();

  EXPECT_EQ(exclusive().release(), Release::not_ours);
  EXPECT_EQ(holder.inspect().holders.size(), 1u);
}

TEST_P(StoreContract, a_repeated_release_finds_that_it_is_done) {
  auto& first = exclusive();
  first.granted();
  first.release();
  auto& second = exclusive();
  second.granted();

  EXPECT_EQ(first.release(exit_with(1)), Release::not_ours);
  EXPECT_EQ(second.inspect().holders.size(), 1u);
  EXPECT_FALSE(second.inspect().last_run);
}

TEST_P(StoreContract, a_repeated_release_does_not_take_the_lock_from_the_next_waiter) {
  auto& holder = exclusive();
  holder.granted();
  auto& waiter = exclusive();
  waiter.queued();
  holder.release();

  EXPECT_EQ(holder.release(exit_with(1)), Release::not_ours);

  EXPECT_TRUE(exclusive().is_busy());
  EXPECT_TRUE(waiter.is_granted());
  EXPECT_FALSE(waiter.inspect().last_run);
}

TEST_P(StoreContract, a_waiter_that_releases_leaves_the_queue) {
  auto& holder = exclusive();
  holder.granted();
  auto& waiter = exclusive();
  waiter.queued();

  EXPECT_EQ(waiter.release(), Release::not_ours);
  EXPECT_EQ(holder.inspect().waiters.size(), 0u);
}

TEST_P(StoreContract, a_waiter_that_releases_at_its_turn_hands_the_lock_to_the_next) {
  auto& holder = exclusive();
  holder.granted();
  auto& first = exclusive();
  first.queued();
  auto& second = exclusive();
  second.queued();
  holder.release();

  first.release();

  EXPECT_TRUE(second.is_granted());
}

TEST_P(StoreContract, the_end_of_a_run_is_recorded) {
  auto& holder = exclusive();
  const auto fence = holder.granted().fence;
  auto end = exit_with(3);

  holder.release(end);

  const auto run = exclusive().inspect().last_run;
  ASSERT_TRUE(run);
  EXPECT_EQ(run->fence, fence);
  EXPECT_EQ(run->exit_code, 3);
  EXPECT_EQ(run->signal, std::nullopt);
  EXPECT_EQ(run->outcome, "ran");
  EXPECT_EQ(run->duration, milliseconds(1500));
  EXPECT_TRUE(run->ended);
  EXPECT_FALSE(run->host.empty());
}

TEST_P(StoreContract, the_end_of_a_run_by_a_signal_is_recorded) {
  auto& holder = exclusive();
  holder.granted();
  RunEnd end;
  end.signal = "TERM";
  end.outcome = "ran";

  holder.release(end);

  const auto run = exclusive().inspect().last_run;
  ASSERT_TRUE(run);
  EXPECT_EQ(run->exit_code, std::nullopt);
  EXPECT_EQ(run->signal, "TERM");
}

TEST_P(StoreContract, a_grant_released_before_its_command_started_is_not_a_run) {
  auto& holder = exclusive();
  holder.granted();

  holder.release();

  EXPECT_FALSE(exclusive().inspect().last_run);
}

TEST_P(StoreContract, an_abandoned_lease_expires_where_leases_expire) {
  auto& holder = exclusive();
  holder.granted();
  auto end = exit_with(76);
  end.lost = Loss::unconfirmed;
  end.leaves_lease = true;

  const auto released = holder.release(end);

  const bool can_expire = holder.store->leases_expire();
  EXPECT_EQ(released, can_expire ? Release::left : Release::released);
  EXPECT_EQ(exclusive().is_busy(), can_expire);
  const auto run = exclusive().inspect().last_run;
  ASSERT_TRUE(run);
  EXPECT_EQ(run->exit_code, 76);
}

TEST_P(StoreContract, an_abandoned_lease_cannot_be_renewed) {
  auto& holder = exclusive();
  const auto grant = holder.granted();
  auto end = exit_with(76);
  end.lost = Loss::unconfirmed;
  end.leaves_lease = true;
  holder.release(end);

  EXPECT_EQ(holder.release(exit_with(0)), Release::not_ours);
  if (!holder.store->leases_expire()) return;
  const auto info = exclusive().inspect();
  ASSERT_EQ(info.holders.size(), 1U);
  EXPECT_EQ(info.holders.front().fence, grant.fence);
  EXPECT_TRUE(info.holders.front().run_ended);
}

TEST_P(StoreContract, a_claim_that_holds_nothing_abandons_nothing) {
  auto end = exit_with(76);
  end.leaves_lease = true;

  EXPECT_EQ(exclusive().release(end), Release::not_ours);
}

// session, started, keeping

TEST_P(StoreContract, a_session_is_closed_on_exec_unless_it_is_passed_on) {
  auto& holder = exclusive();
  holder.granted();
  const int session = holder.claimant().session();

  EXPECT_TRUE(session == -1 || (::fcntl(session, F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_P(StoreContract, the_start_of_a_command_changes_nothing_for_its_holder) {
  auto& holder = exclusive();
  const auto fence = holder.granted().fence;

  holder.start({::getpid(), Clock::now(), Clock::now()});

  EXPECT_EQ(holder.granted().fence, fence);
  EXPECT_TRUE(exclusive().is_busy());
}

TEST_P(StoreContract, the_record_of_a_start_is_a_file_and_its_content) {
  auto& holder = exclusive();
  holder.granted();

  const auto note = holder.claimant().start_note();

  EXPECT_TRUE(!note || (note->file && !note->before_pid.empty()));
}

TEST_P(StoreContract, a_lease_that_nobody_changes_is_not_lost) {
  Witness witness;
  auto& holder = brief(exclusive());
  const auto grant = holder.granted();
  holder.keep(grant, witness);

  auto& other = exclusive();
  other.queued();
  other.release();
  holder.stop_keeping();

  EXPECT_FALSE(witness.told);
}

TEST_P(StoreContract, a_lease_that_vanishes_is_lost) {
  Witness witness;
  auto& holder = brief(exclusive());
  const auto grant = holder.granted();
  holder.keep(grant, witness);

  world_->wipe_out();

  EXPECT_TRUE(eventually(context_, [&] { return witness.told.has_value(); }));
  EXPECT_EQ(witness.told, Loss::gone);
}

TEST_P(StoreContract, a_lease_that_vanishes_is_set_up_again_where_leases_expire) {
  Witness witness;
  auto& holder = brief(exclusive());
  holder.claim.reclaim = true;
  const auto grant = holder.granted();
  holder.keep(grant, witness);

  world_->wipe_out();

  EXPECT_TRUE(eventually(context_, [&] { return witness.again || witness.told; }));
  EXPECT_EQ(witness.again, holder.store->leases_expire());
  EXPECT_EQ(!witness.told, holder.store->leases_expire());
}

TEST_P(StoreContract, nobody_is_notified_of_a_lease_that_is_no_longer_kept) {
  Witness first;
  Witness second;
  for (auto* witness : {&first, &second}) {
    auto& holder = brief(slot(2));
    const auto grant = holder.granted();
    holder.keep(grant, *witness);
  }
  contenders_.front().stop_keeping();

  world_->wipe_out();

  EXPECT_TRUE(eventually(context_, [&] { return second.told.has_value(); }));
  EXPECT_FALSE(first.told);
}

// inspect

TEST_P(StoreContract, an_unused_lock_is_free) {
  const auto info = exclusive().inspect();

  EXPECT_EQ(info.lock.name, "job");
  EXPECT_TRUE(info.holders.empty());
  EXPECT_TRUE(info.waiters.empty());
  EXPECT_EQ(info.free, 1u);
  EXPECT_FALSE(info.last_run);
}

TEST_P(StoreContract, a_held_lock_shows_its_holder_and_its_waiters) {
  const auto fence = exclusive().granted().fence;
  exclusive().queued();
  exclusive().queued();

  const auto info = exclusive().inspect();

  ASSERT_EQ(info.holders.size(), 1u);
  EXPECT_EQ(info.holders[0].fence, fence);
  EXPECT_EQ(info.waiters.size(), 2u);
  EXPECT_EQ(info.waiters.at(0).pid, ::getpid());
  EXPECT_EQ(info.free, 0u);
}

TEST_P(StoreContract, a_semaphore_shows_its_slots) {
  slot(3).granted();
  slot(3).granted();

  const auto info = exclusive().inspect();

  EXPECT_EQ(info.slots, 3u);
  EXPECT_EQ(info.free, 1u);
  EXPECT_EQ(info.holders.size(), 2u);
}

TEST_P(StoreContract, a_shared_lock_shows_its_readers) {
  shared().granted();
  shared().granted();

  const auto info = exclusive().inspect();

  EXPECT_EQ(info.mode, Mode::shared);
  EXPECT_EQ(info.holders.size(), 2u);
  EXPECT_EQ(info.free, 0u);
}

TEST_P(StoreContract, inspecting_a_lock_does_not_take_it) {
  exclusive().inspect();

  EXPECT_TRUE(exclusive().is_granted());
}

// list

TEST_P(StoreContract, an_unused_store_has_no_locks) {
  EXPECT_TRUE(list("dlock").empty());
}

TEST_P(StoreContract, locks_in_use_are_listed_by_name) {
  exclusive("b").granted();
  exclusive("c").granted();
  exclusive("a").granted();

  EXPECT_EQ(names_of(list("dlock")), (std::vector<std::string>{"a", "b", "c"}));
}

TEST_P(StoreContract, a_lock_with_a_last_run_is_listed) {
  auto& holder = exclusive("ran");
  holder.granted();
  holder.release(exit_with(0));

  EXPECT_EQ(names_of(list("dlock")), (std::vector<std::string>{"ran"}));
}

TEST_P(StoreContract, a_lock_that_was_held_without_a_run_is_not_listed) {
  auto& holder = exclusive("held");
  holder.granted();
  holder.release();

  EXPECT_TRUE(list("dlock").empty());
}

TEST_P(StoreContract, locks_that_do_not_match_are_not_listed) {
  exclusive("a").granted();
  exclusive("b").granted();

  EXPECT_EQ(names_of(list("dlock", "a")), (std::vector<std::string>{"b"}));
}

TEST_P(StoreContract, locks_of_other_namespaces_are_not_listed) {
  exclusive("a").granted();
  for (const std::string name_space : {"dlockb", "dloc", "d", "other"}) {
    auto& other = exclusive("b");
    other.claim.lock.name_space = name_space;
    other.granted();
  }

  EXPECT_EQ(names_of(list("dlock")), (std::vector<std::string>{"a"}));
}

// A service that does not reply

TEST_P(StoreContract, a_store_that_does_not_answer_is_unreachable) {
  auto& holder = contender(claim_of("job"), GetParam().brief_timeout);
  holder.granted();
  const auto obstacle = world_->hold_up();

  EXPECT_EQ(failure_of([&] { holder.ask(); }), Failure::Kind::unreachable);
  EXPECT_EQ(failure_of([&] { holder.release(); }), Failure::Kind::unreachable);
}

// Nothing can block readers of a local store, who read its state themselves.
TEST_P(StoreContract, the_inspection_of_a_store_that_does_not_answer_ends) {
  auto& holder = contender(claim_of("job"), GetParam().brief_timeout);
  holder.granted();
  const auto obstacle = world_->hold_up();
  try {
    EXPECT_EQ(holder.inspect().holders.size(), 1u);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::unreachable);
  }
}

TEST_P(StoreContract, a_failed_request_can_be_repeated) {
  auto& holder = contender(claim_of("job"), GetParam().brief_timeout);
  holder.granted();
  auto obstacle = world_->hold_up();
  EXPECT_EQ(failure_of([&] { holder.release(); }), Failure::Kind::unreachable);
  obstacle.reset();

  holder.release();

  EXPECT_TRUE(exclusive().is_granted());
}

TEST_P(StoreContract, stops_asking_when_told_to) {
  auto& asker = exclusive();
  const auto obstacle = world_->hold_up();
  Task answer(context_, asker.claimant().ask(Queue::stay_out, asker.wakeup));

  asker.wakeup.give_up(true);

  EXPECT_EQ(failure_of([&] { answer.result(); }), Failure::Kind::interrupted);
}

}  // namespace
}  // namespace dlock
