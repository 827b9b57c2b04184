// What every store answers a claim that another run counts as.

#include <gtest/gtest.h>

#include <list>
#include <string>
#include <vector>

#include "lease/holding.hpp"
#include "lock/lease.hpp"
#include "rules/look.hpp"
#include "tests/contract/contender.hpp"
#include "tests/contract/ended_process.hpp"
#include "tests/run_end.hpp"
#include "util/process.hpp"

namespace dlock {
namespace {

using std::chrono::hours;

constexpr auto never = Clock::time_point::max();

class Deduplication : public ::testing::TestWithParam<Kind> {
 protected:
  Contender& exclusive() {
    return contenders_.emplace_back(context_, *world_, claim_of("job"));
  }
  Contender& deduping(milliseconds window = hours(1)) {
    auto& contender = exclusive();
    contender.claim.dedupe = Dedupe{window, false};
    return contender;
  }
  Contender& retrying(milliseconds window = hours(1)) {
    auto& contender = exclusive();
    contender.claim.dedupe = Dedupe{window, true};
    return contender;
  }

  Contender& joining() {
    auto& contender = exclusive();
    contender.claim.dedupe = Dedupe{{}, false, true};
    return contender;
  }
  static RunEnd shared(RunEnd end) {
    end.is_shared = true;
    return end;
  }

  // As if its process had been killed.
  void kill(Contender& contender) {
    contenders_.remove_if([&](const Contender& c) { return &c == &contender; });
  }

  // Where leases expire, its lease expires soon.
  void run_and_vanish() {
    auto& runner = exclusive();
    runner.claim.ttl = milliseconds(500);
    runner.granted();
    runner.start(ended_process());
    kill(runner);
  }

  Fence ran(const RunEnd& end) {
    auto& runner = exclusive();
    const auto fence = runner.granted().fence;
    runner.release(end);
    return fence;
  }

  static std::optional<RunInfo> deduplicated(const Answer& answer) {
    const auto* deduplicated = std::get_if<Deduplicated>(&answer);
    return deduplicated == nullptr ? std::nullopt : std::optional(deduplicated->by);
  }
  static std::optional<Fence> fence_of(const Answer& answer) {
    const auto run = deduplicated(answer);
    return run ? std::optional(run->fence) : std::nullopt;
  }
  static bool is_granted(const Answer& answer) {
    return std::holds_alternative<Grant>(answer);
  }

  // A waiter that sleeps until it is woken: there are two waiters before it, and only the
  // first two watch the clock.
  struct Sleeper {
    Contender& waiter;
    Task<Nothing> sleep;
  };
  Sleeper sleeper(Contender& waiter) {
    return {
        waiter,
        {context_, with_result(waiter.claimant().await_turn(endless(waiter.wakeup)))}};
  }

  std::size_t waiters() { return exclusive().inspect().waiters.size(); }

  asio::io_context context_;
  std::unique_ptr<World> world_ = GetParam().make();
  std::list<Contender> contenders_;
};

INSTANTIATE_TEST_SUITE_P(stores, Deduplication, ::testing::ValuesIn(kinds), name_of);

// Runs in progress

TEST_P(Deduplication, a_run_in_progress_counts) {
  const auto fence = exclusive().granted().fence;

  const auto run = deduplicated(deduping().ask());

  ASSERT_TRUE(run);
  EXPECT_EQ(run->fence, fence);
  EXPECT_EQ(run->outcome, "running");
  EXPECT_FALSE(run->host.empty());
  EXPECT_FALSE(run->ended);
  EXPECT_GT(run->started, WallTime(0));
}

TEST_P(Deduplication, a_run_in_progress_counts_however_long_ago_it_started) {
  exclusive().granted();

  EXPECT_TRUE(deduplicated(deduping(milliseconds(1)).ask()));
}

TEST_P(Deduplication, a_claim_with_a_wait_does_not_wait_for_a_run_in_progress) {
  exclusive().granted();

  EXPECT_TRUE(deduplicated(deduping().ask(Queue::join)));
  EXPECT_EQ(waiters(), 0u);
}

TEST_P(Deduplication, a_run_does_not_count_for_itself) {
  auto& runner = deduping();
  const auto fence = runner.granted().fence;

  EXPECT_EQ(runner.granted().fence, fence);
}

TEST_P(Deduplication, a_claim_that_does_not_deduplicate_is_busy) {
  exclusive().granted();

  EXPECT_TRUE(exclusive().is_busy());
}

TEST_P(Deduplication, an_outer_run_blocks_and_does_not_count) {
  const auto outer = exclusive().granted();
  auto& inner = deduping();
  inner.claim.outer_fences.push_back(outer.fence);

  EXPECT_TRUE(std::holds_alternative<HeldByOuterRun>(inner.ask()));
}

// Runs that have ended

TEST_P(Deduplication, an_ended_run_that_started_within_the_window_counts) {
  const auto fence = ran(exit_with(0));

  const auto run = deduplicated(deduping().ask());

  ASSERT_TRUE(run);
  EXPECT_EQ(run->fence, fence);
  EXPECT_EQ(run->outcome, "ran");
  EXPECT_EQ(run->exit_code, 0);
  EXPECT_EQ(run->duration, milliseconds(1500));
  EXPECT_FALSE(run->host.empty());
  EXPECT_TRUE(run->ended);
  EXPECT_EQ(exclusive().history().size(), 1u);
}

TEST_P(Deduplication, a_run_that_started_before_the_window_does_not_count) {
  ran(exit_with(0));
  auto& late = deduping(milliseconds(50));

  EXPECT_TRUE(eventually(context_, [&] { return late.is_granted(); }));
}

TEST_P(Deduplication, a_run_that_deduplicates_counts_too) {
  auto& runner = deduping();
  runner.granted();
  runner.release(exit_with(0));

  EXPECT_TRUE(deduplicated(deduping().ask()));
}

TEST_P(Deduplication, the_run_that_counts_is_the_last_one) {
  ran(exit_with(0));
  const auto last = ran(exit_with(3));

  EXPECT_EQ(fence_of(deduping().ask()), last);
}

TEST_P(Deduplication, runs_of_other_locks_do_not_count) {
  ran(exit_with(0));
  auto& other_name = deduping();
  other_name.claim.lock.name = "other";
  auto& other_namespace = deduping();
  other_namespace.claim.lock.name_space = "other";

  EXPECT_TRUE(other_name.is_granted());
  EXPECT_TRUE(other_namespace.is_granted());
}

TEST_P(Deduplication, a_run_that_failed_counts) {
  ran(exit_with(3));

  EXPECT_TRUE(deduplicated(deduping().ask()));
}

TEST_P(Deduplication, a_run_that_vanished_does_not_count) {
  run_and_vanish();
  auto& next = deduping();

  EXPECT_TRUE(eventually(context_, [&] { return next.is_granted(); }));
}

TEST_P(Deduplication, a_run_that_vanished_does_not_hide_the_run_before_it) {
  const auto fence = ran(exit_with(3));
  run_and_vanish();
  auto& other = deduping();

  EXPECT_TRUE(eventually(context_, [&] { return fence_of(other.ask()) == fence; }));
}

TEST_P(Deduplication, a_waiter_waits_again_if_the_run_that_it_left_for_vanishes) {
  auto& reader = exclusive();
  reader.claim.mode = Mode::shared;
  reader.granted();
  auto& runner = exclusive();
  runner.claim.ttl = milliseconds(500);
  runner.queued();
  auto& waiter = deduping();
  waiter.queued();
  reader.release();
  ASSERT_TRUE(eventually(context_, [&] { return is_granted(runner.ask(Queue::join)); }));
  runner.start(ended_process());

  kill(runner);
  const auto is_over = [&] { return waiter.inspect().holders.empty(); };
  ASSERT_TRUE(eventually(context_, is_over));

  const auto is_granted_again = [&] { return is_granted(waiter.ask(Queue::join)); };
  EXPECT_TRUE(eventually(context_, is_granted_again));
}

// Grants that are not runs

TEST_P(Deduplication, a_released_grant_without_a_command_is_not_a_run) {
  auto& holder = exclusive();
  holder.granted();
  holder.release();

  EXPECT_TRUE(deduping().is_granted());
}

TEST_P(Deduplication, a_command_that_could_not_be_started_is_not_a_run) {
  for (const int code : {125, 126, 127}) {
    ran(exit_with(code));

    auto& next = deduping();
    EXPECT_TRUE(next.is_granted()) << code;
    next.release();
  }
}

TEST_P(Deduplication, a_failed_start_does_not_hide_the_run_before_it) {
  const auto fence = ran(exit_with(0));
  ran(exit_with(127));

  EXPECT_EQ(fence_of(deduping().ask()), fence);
}

TEST_P(Deduplication, shared_grants_do_not_count) {
  auto& reader = exclusive();
  reader.claim.mode = Mode::shared;
  reader.granted();
  auto& other = deduping();

  EXPECT_TRUE(other.is_busy());
  reader.release(exit_with(0));
  EXPECT_TRUE(other.is_granted());
}

TEST_P(Deduplication, grants_of_slots_do_not_count) {
  auto& holder = exclusive();
  holder.claim.slots = 2;
  holder.granted();
  auto& other = deduping();

  EXPECT_TRUE(std::holds_alternative<SlotsDiffer>(other.ask()));
  holder.release(exit_with(0));
  EXPECT_TRUE(other.is_granted());
}

// Answers that a look at the lock gives

TEST_P(Deduplication, the_run_that_counts_can_be_seen_without_asking) {
  const auto foregone = [&](Contender& one, Queue queue = Queue::stay_out) {
    auto answer = rules::foregone_answer(one.inspect(), one.claim, queue, host_name());
    return answer ? fence_of(*answer) : std::nullopt;
  };
  EXPECT_FALSE(foregone(deduping()));
  auto& runner = exclusive();
  auto last = runner.granted().fence;
  EXPECT_EQ(foregone(deduping()), last);
  EXPECT_EQ(foregone(retrying()), last);
  EXPECT_FALSE(foregone(retrying(), Queue::join));
  runner.release(exit_with(3));
  EXPECT_EQ(foregone(deduping()), last);
  EXPECT_FALSE(foregone(retrying()));
  last = ran(exit_with(0));
  EXPECT_EQ(foregone(deduping()), last);
  EXPECT_EQ(foregone(retrying(), Queue::join), last);

  auto& reader = exclusive();
  reader.claim.mode = Mode::shared;
  reader.granted();
  EXPECT_EQ(foregone(deduping()), last);
  reader.release(exit_with(0));
  EXPECT_EQ(foregone(deduping()), last);
}

// --retry-failed

TEST_P(Deduplication, a_failed_run_does_not_count_with_retry_failed) {
  ran(exit_with(3));

  EXPECT_TRUE(retrying().is_granted());
}

TEST_P(Deduplication, a_run_that_was_ended_counts_as_failed) {
  RunEnd signalled;
  signalled.signal = "TERM";
  signalled.outcome = "ran";
  auto timed_out = exit_with(124);
  timed_out.outcome = "timeout";
  auto lost = exit_with(76);
  lost.outcome = "lost";
  for (const auto& end : {signalled, timed_out, lost}) {
    ran(end);

    auto& next = retrying();
    EXPECT_TRUE(next.is_granted()) << end.outcome;
    next.release();
  }
}

TEST_P(Deduplication, a_run_that_vanished_does_not_count_with_retry_failed) {
  run_and_vanish();
  auto& next = retrying();

  EXPECT_TRUE(eventually(context_, [&] { return next.is_granted(); }));
}

TEST_P(Deduplication, a_success_counts_with_retry_failed) {
  ran(exit_with(0));

  EXPECT_TRUE(deduplicated(retrying().ask()));
}

TEST_P(Deduplication, a_success_counts_even_if_a_later_run_failed) {
  const auto success = ran(exit_with(0));
  ran(exit_with(3));

  EXPECT_EQ(fence_of(retrying().ask()), success);
}

TEST_P(Deduplication, without_a_wait_a_run_in_progress_counts_as_a_success) {
  exclusive().granted();

  EXPECT_TRUE(deduplicated(retrying().ask(Queue::stay_out)));
}

TEST_P(Deduplication, with_a_wait_a_claim_waits_for_the_outcome_of_the_run) {
  exclusive().granted();

  EXPECT_EQ(retrying().queued().place, 1u);
}

TEST_P(Deduplication, after_the_wait_a_run_in_progress_counts_as_a_success) {
  exclusive().granted();
  auto& waiter = retrying();
  waiter.queued();

  EXPECT_TRUE(deduplicated(waiter.ask(Queue::stay_out)));
  EXPECT_EQ(waiters(), 0u);
}

// In the queue

TEST_P(Deduplication, waiters_leave_the_queue_when_a_run_succeeds) {
  auto& runner = exclusive();
  const auto fence = runner.granted().fence;
  auto& first = retrying();
  first.queued();
  auto& second = retrying();
  second.queued();

  runner.release(exit_with(0));

  EXPECT_EQ(waiters(), 0u);
  EXPECT_EQ(fence_of(first.ask(Queue::join)), fence);
  EXPECT_EQ(fence_of(second.ask(Queue::join)), fence);
}

TEST_P(Deduplication, a_removed_waiter_learns_why_even_if_it_asks_late) {
  auto& runner = exclusive();
  const auto fence = runner.granted().fence;
  auto& waiter = retrying();
  waiter.queued();
  runner.release(exit_with(0));
  waiter.claim.dedupe->window = milliseconds(0);  // as if the window were over now

  EXPECT_EQ(fence_of(waiter.ask(Queue::join)), fence);
  EXPECT_EQ(fence_of(waiter.ask(Queue::join)), fence);
}

TEST_P(Deduplication, a_waiter_whose_window_is_over_when_the_run_ends_takes_its_turn) {
  auto& runner = exclusive();
  runner.granted();
  auto& waiter = retrying(milliseconds(1));
  waiter.queued();
  const auto began = Clock::now();
  eventually(context_, [&] { return Clock::now() > began + milliseconds(5); });

  runner.release(exit_with(0));

  EXPECT_TRUE(is_granted(waiter.ask(Queue::join)));
}

// Such a window has grown since the waiter queued, which the store does not know.
TEST_P(Deduplication, a_window_that_began_at_a_moment_grows_while_the_claim_waits) {
  constexpr milliseconds lead{50};
  const auto began = Clock::now() - lead;
  auto& runner = exclusive();
  const auto fence = runner.granted().fence;
  auto& waiter = retrying(milliseconds(1));
  waiter.claim.dedupe->began = began;
  waiter.queued();
  const auto longer = Clock::now() + (Clock::now() - began) + lead;
  eventually(context_, [&] { return Clock::now() > longer; });

  runner.release(exit_with(0));

  EXPECT_EQ(fence_of(waiter.ask(Queue::join)), fence);
}

TEST_P(Deduplication, when_a_run_fails_the_first_waiter_runs_and_its_success_counts) {
  auto& runner = exclusive();
  runner.granted();
  auto& first = retrying();
  first.queued();
  auto& second = retrying();
  second.queued();

  runner.release(exit_with(1));

  const auto answer = first.ask(Queue::join);
  ASSERT_TRUE(is_granted(answer));
  EXPECT_EQ(std::get<Busy>(second.ask(Queue::join)).place, 1u);
  first.release(exit_with(0));
  EXPECT_EQ(fence_of(second.ask(Queue::join)), std::get<Grant>(answer).fence);
}

TEST_P(Deduplication, when_a_run_vanishes_the_waiter_that_retries_failed_runs_runs) {
  auto& runner = exclusive();
  runner.claim.ttl = milliseconds(500);
  runner.granted();
  runner.start(ended_process());
  auto& waiter = retrying();
  waiter.queued();

  kill(runner);

  EXPECT_TRUE(eventually(context_, [&] { return is_granted(waiter.ask(Queue::join)); }));
}

TEST_P(Deduplication, waiters_that_accept_any_run_leave_the_queue_when_one_starts) {
  auto& reader = exclusive();
  reader.claim.mode = Mode::shared;
  reader.granted();
  auto& first = exclusive();
  first.queued();
  auto& second = deduping();
  second.queued();
  reader.release();

  const auto fence = std::get<Grant>(first.ask(Queue::join)).fence;

  EXPECT_EQ(waiters(), 0u);
  EXPECT_EQ(fence_of(second.ask(Queue::join)), fence);
}

TEST_P(Deduplication, a_waiter_that_does_not_deduplicate_keeps_its_place) {
  auto& runner = exclusive();
  runner.granted();
  auto& before = retrying();
  before.queued();
  auto& plain = exclusive();
  plain.queued();
  auto& after = retrying();
  after.queued();

  runner.release(exit_with(0));

  EXPECT_TRUE(is_granted(plain.ask(Queue::join)));
  EXPECT_TRUE(deduplicated(before.ask(Queue::join)));
  EXPECT_TRUE(deduplicated(after.ask(Queue::join)));
}

TEST_P(Deduplication, waiters_are_woken_when_a_run_succeeds) {
  auto& runner = exclusive();
  runner.granted();
  exclusive().queued();
  exclusive().queued();
  auto& third = retrying();
  third.queued();
  auto& fourth = retrying();
  fourth.queued();
  Sleeper first = sleeper(third);
  Sleeper second = sleeper(fourth);

  runner.release(exit_with(0));

  EXPECT_NO_THROW(first.sleep.result());
  EXPECT_NO_THROW(second.sleep.result());
}

TEST_P(Deduplication, waiters_are_woken_when_a_run_that_counts_starts) {
  auto& reader = exclusive();
  reader.claim.mode = Mode::shared;
  reader.granted();
  auto& next = exclusive();
  next.queued();
  exclusive().queued();
  auto& third = deduping();
  third.queued();
  reader.release();
  Sleeper woken = sleeper(third);

  next.granted();

  EXPECT_NO_THROW(woken.sleep.result());
}

TEST_P(Deduplication, a_dead_waiter_that_had_left_the_queue_blocks_nobody) {
  auto& runner = exclusive();
  runner.granted();
  auto& dead = retrying();
  dead.queued();
  auto& plain = exclusive();
  plain.queued();
  runner.release(exit_with(0));

  kill(dead);

  EXPECT_TRUE(is_granted(plain.ask(Queue::join)));
}

// acquire() as a whole

class DeduplicatedWait : public Deduplication {
 protected:
  Answer acquired(Contender& contender, milliseconds wait) {
    Patience patience;
    patience.until = later(Clock::now(), wait);
    return result_of(context_, acquire(contender.claimant(), patience, contender.wakeup));
  }
};

INSTANTIATE_TEST_SUITE_P(stores, DeduplicatedWait, ::testing::ValuesIn(kinds), name_of);

TEST_P(DeduplicatedWait, a_run_in_progress_counts_when_the_wait_is_over) {
  auto& runner = exclusive();
  const auto fence = runner.granted().fence;

  EXPECT_EQ(fence_of(acquired(retrying(), milliseconds(50))), fence);
}

TEST_P(DeduplicatedWait, a_lock_held_by_a_reader_is_busy_when_the_wait_is_over) {
  auto& reader = exclusive();
  reader.claim.mode = Mode::shared;
  reader.granted();

  EXPECT_TRUE(std::holds_alternative<Busy>(acquired(retrying(), milliseconds(50))));
  EXPECT_TRUE(std::holds_alternative<Busy>(acquired(deduping(), milliseconds(50))));
}

TEST_P(DeduplicatedWait, a_waiter_is_deduplicated_as_soon_as_the_run_succeeds) {
  auto& runner = exclusive();
  const auto fence = runner.granted().fence;
  auto& waiter = retrying();
  Patience patience;
  patience.until = never;
  Task answer(context_, acquire(waiter.claimant(), patience, waiter.wakeup));
  ASSERT_TRUE(eventually(context_, [&] { return waiters() == 1; }));

  runner.release(exit_with(0));

  EXPECT_EQ(fence_of(answer.result()), fence);
}

// Waiters that join a run

TEST_P(Deduplication, waiters_that_join_are_deduplicated_by_the_run) {
  auto& runner = exclusive();
  const auto fence = runner.granted().fence;
  auto& first = joining();
  first.queued();
  auto& second = joining();
  second.queued();

  runner.release(shared(exit_with(0)));

  EXPECT_EQ(fence_of(first.ask(Queue::join)), fence);
  EXPECT_EQ(fence_of(second.ask(Queue::join)), fence);
  EXPECT_EQ(waiters(), 0u);
}

TEST_P(Deduplication, a_waiter_that_joined_a_run_learns_how_it_ended) {
  auto& runner = exclusive();
  runner.granted();
  auto& waiter = joining();
  waiter.queued();
  auto end = exit_with(3);
  end.exit_code.reset();
  end.signal = "TERM";

  runner.release(shared(end));

  const auto run = deduplicated(waiter.ask(Queue::join));
  ASSERT_TRUE(run);
  EXPECT_EQ(run->signal, "TERM");
  EXPECT_FALSE(run->exit_code);
  EXPECT_FALSE(run->host.empty());
}

TEST_P(Deduplication, a_failed_run_or_start_is_joined_too) {
  for (const int code : {3, 125, 127}) {
    auto& runner = exclusive();
    runner.granted();
    auto& waiter = joining();
    waiter.queued();

    runner.release(shared(exit_with(code)));

    const auto run = deduplicated(waiter.ask(Queue::join));
    ASSERT_TRUE(run) << code;
    EXPECT_EQ(run->exit_code, code);
  }
}

TEST_P(Deduplication, a_joining_waiter_is_woken_when_the_run_ends) {
  auto& runner = exclusive();
  runner.granted();
  joining().queued();
  joining().queued();
  auto& last = joining();
  last.queued();
  auto sleeping = sleeper(last);
  EXPECT_FALSE(sleeping.sleep.is_done());

  runner.release(shared(exit_with(0)));

  EXPECT_TRUE(eventually(context_, [&] { return sleeping.sleep.is_done(); }));
  EXPECT_TRUE(deduplicated(last.ask(Queue::join)));
}

TEST_P(Deduplication,
       a_joining_claim_counts_neither_a_run_in_progress_nor_an_earlier_one) {
  ran(exit_with(0));
  auto& runner = exclusive();
  runner.granted();
  auto& waiter = joining();

  EXPECT_TRUE(waiter.is_busy());
  EXPECT_EQ(waiter.queued().place, 1u);
}

TEST_P(Deduplication,
       a_run_without_a_shared_result_is_not_joined_and_the_first_waiter_runs) {
  auto& runner = exclusive();
  runner.granted();
  auto& first = joining();
  first.queued();
  auto& second = joining();
  second.queued();

  runner.release(exit_with(0));

  EXPECT_TRUE(eventually(context_, [&] { return is_granted(first.ask(Queue::join)); }));
  EXPECT_TRUE(std::holds_alternative<Busy>(second.ask(Queue::join)));
}

TEST_P(Deduplication, runs_of_a_lock_with_several_slots_are_not_joined) {
  auto& first = exclusive();
  first.claim.slots = 2;
  first.granted();
  auto& second = exclusive();
  second.claim.slots = 2;
  second.granted();
  auto& waiter = joining();
  waiter.claim.slots = 2;
  waiter.queued();

  first.release(shared(exit_with(0)));

  EXPECT_TRUE(is_granted(waiter.ask(Queue::join)));
}

TEST_P(Deduplication, a_run_that_vanished_is_not_joined_and_the_first_waiter_runs) {
  auto& runner = exclusive();
  runner.claim.ttl = milliseconds(500);
  runner.granted();
  runner.start(ended_process());
  auto& waiter = joining();
  waiter.queued();

  kill(runner);

  EXPECT_TRUE(eventually(context_, [&] { return is_granted(waiter.ask(Queue::join)); }));
}

TEST_P(Deduplication, a_waiter_that_does_not_join_is_granted_the_lock_after_the_run) {
  auto& runner = exclusive();
  runner.granted();
  auto& joined = joining();
  joined.queued();
  auto& other = exclusive();
  other.queued();

  runner.release(shared(exit_with(0)));

  EXPECT_TRUE(eventually(context_, [&] { return is_granted(other.ask(Queue::join)); }));
  EXPECT_TRUE(deduplicated(joined.ask(Queue::join)));
}

TEST_P(Deduplication, a_joining_waiter_stays_in_the_queue_when_the_next_run_is_granted) {
  auto& runner = exclusive();
  runner.granted();
  auto& next = exclusive();
  next.queued();
  auto& waiter = joining();
  waiter.queued();
  runner.release();

  EXPECT_TRUE(eventually(context_, [&] { return is_granted(next.ask(Queue::join)); }));

  EXPECT_TRUE(std::holds_alternative<Busy>(waiter.ask(Queue::join)));
}

}  // namespace
}  // namespace dlock
