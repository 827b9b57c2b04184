#include "lease/patience.hpp"

#include <algorithm>

#include "loop/wakeup.hpp"

namespace dlock {
namespace {

// The claimant of a single server may pause before this many wake-ups, and of several
// servers one may wake it without a reason.
constexpr int most_at_once = 16;

// Longer than any real wait, and far below the overflow of the clocks.
constexpr milliseconds longest_patience = std::chrono::hours(24 * 366 * 100);

milliseconds left_until(Clock::time_point until) {
  const auto now = Clock::now();
  if (until <= now) return milliseconds(0);
  return std::min(std::chrono::floor<milliseconds>(until - now), longest_patience);
}

// Sleeps until the turn, and reports the time left whenever the text shown is outdated.
asio::awaitable<void> sleep_until_turn(Wakeup& wakeup, Clock::time_point turn,
                                       const TurnPatience& patience) {
  for (;;) {
    const auto turn_in = left_until(turn);
    if (turn_in.count() <= 0 || wakeup.gives_up()) break;
    const auto good_for =
        patience.waiting ? patience.waiting(turn_in) : milliseconds::max();
    co_await wakeup.sleep_until(std::min(turn, later(Clock::now(), good_for)));
  }
  co_await wakeup.sleep_until(turn);
}

}  // namespace

asio::awaitable<Answer> acquire(Claimant& claimant, const Patience& patience,
                                Wakeup& wakeup) {
  const auto& claim = claimant.claim();
  const auto until = patience.until.value_or(Clock::time_point::min());
  const bool may_wait = patience.until && until > Clock::now();
  // A claim that waits for the end of a run must not be answered first that the run is in
  // progress.
  const bool waits_for_ends = may_wait && claim.dedupe && claim.dedupe->retry_failed;
  auto queue = may_wait && (claimant.queues_at_once() || waits_for_ends)
                   ? Queue::join
                   : Queue::stay_out;
  GrowingPause pause;
  Restraint restraint(most_at_once);
  for (;;) {
    std::optional<Failure> failure;
    auto good_for = milliseconds::max();
    try {
      // Once the wait is over, a run in progress counts as without a wait.
      if (Clock::now() >= until) queue = Queue::refuse;
      auto answer = co_await claimant.ask(queue, wakeup);
      const auto* busy = std::get_if<Busy>(&answer);
      if (busy == nullptr || queue == Queue::refuse) co_return answer;
      const bool is_out = queue == Queue::join && busy->place == 0 &&
                          (claim.max_queue || !claimant.bounds_its_queues());
      if (is_out) co_return answer;  // the queue is too long for it, or it lost its place
      if (Clock::now() >= until) continue;
      pause.reset();
      if (queue == Queue::stay_out) {
        // Entering the queue costs a little, which is not needed if the lock is free.
        queue = Queue::join;
        continue;
      }
      if (patience.waiting) good_for = patience.waiting(*busy);
      if (patience.clearing) {
        const auto clear_for = co_await patience.clearing(*busy);
        good_for = std::min(good_for, clear_for);
      }
    } catch (const Failure& error) {
      const bool absent = error.kind() == Failure::Kind::unreachable;
      if (!absent || !patience.waits_for_store || Clock::now() >= until) throw;
      failure = error;  // co_await is not allowed in a handler
    }
    if (!failure) {
      co_await claimant.await_turn(wakeup,
                                   std::min(until, later(Clock::now(), good_for)));
      const auto now = Clock::now();
      const auto end = std::min(until, later(now, restraint.pause(now)));
      co_await wakeup.sleep_until(end);
    } else {
      if (patience.retrying) patience.retrying(*failure);
      co_await wakeup.wait_until(std::min(until, later(Clock::now(), pause.next())));
    }
    if (wakeup.gives_up()) throw Failure(Failure::Kind::interrupted, "interrupted");
  }
}

asio::awaitable<RateAnswer> await_admission(RateLimits& limits, RateClaim claim,
                                            TurnPatience patience, Wakeup& wakeup) {
  GrowingPause pause;
  Restraint restraint;
  bool may_have_turn = false;
  for (;;) {
    std::optional<Clock::time_point> turn;
    Clock::time_point next_try;
    bool was_interrupted = false;
    claim.patience = left_until(patience.until);
    may_have_turn = may_have_turn || claim.patience.count() > 0;
    try {
      const auto answer = co_await limits.admit(claim, wakeup);
      const auto* later_on = std::get_if<NotAdmitted>(&answer);
      if (later_on == nullptr || !later_on->has_turn) co_return answer;
      // A store that gives one turn after the other at once is asked less often.
      const auto now = Clock::now();
      turn = later(now, std::max(later_on->next_in, restraint.pause(now)));
      pause.reset();
    } catch (const Failure& failure) {
      was_interrupted = failure.kind() == Failure::Kind::interrupted;
      const bool passes = failure.kind() == Failure::Kind::unreachable;
      if (!was_interrupted && (!passes || Clock::now() >= patience.until)) throw;
      if (passes && patience.retrying) patience.retrying(failure);
      next_try = std::min(patience.until, later(Clock::now(), pause.next()));
    }
    if (turn) {
      co_await sleep_until_turn(wakeup, *turn, patience);
    } else if (!was_interrupted) {
      co_await wakeup.sleep_until(next_try);
    }
    if (wakeup.gives_up()) break;
  }
  if (may_have_turn) {
    try {
      co_await limits.withdraw(claim, wakeup);
    } catch (const Failure&) {
      // The turn lapses then.
    }
  }
  throw Failure(Failure::Kind::interrupted, "interrupted");
}

}  // namespace dlock
