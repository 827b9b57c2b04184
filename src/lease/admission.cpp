#include "lease/admission.hpp"

#include <algorithm>
#include <optional>

#include "loop/retry.hpp"

namespace dlock {
namespace {

// Longer than any real wait, and far below the overflow of the clocks.
constexpr milliseconds longest_patience = std::chrono::hours(24 * 366 * 100);

milliseconds left_until(Clock::time_point until) {
  const auto now = Clock::now();
  if (until <= now) return milliseconds(0);
  return std::min(std::chrono::floor<milliseconds>(until - now), longest_patience);
}

asio::awaitable<void> sleep(Wakeup& wakeup, Clock::time_point until) {
  co_await wakeup.sleep_until(until);
}

// Sleeps until the turn, and reports the time left whenever the text shown is outdated.
asio::awaitable<void> sleep_until_turn(Wakeup& wakeup, Clock::time_point turn,
                                       const TurnPatience& patience) {
  for (;;) {
    const auto turn_in = left_until(turn);
    if (turn_in.count() <= 0 || wakeup.gives_up()) break;
    const auto good_for =
        patience.waiting ? patience.waiting(turn_in) : milliseconds::max();
    co_await sleep(wakeup, std::min(turn, later(Clock::now(), good_for)));
  }
  co_await sleep(wakeup, turn);
}

}  // namespace

asio::awaitable<RateAnswer> await_admission(RateLimits& limits, RateClaim claim,
                                            TurnPatience patience, Wakeup& wakeup) {
  auto retry_after = first_retry;
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
      retry_after = first_retry;
    } catch (const Failure& failure) {
      was_interrupted = failure.kind() == Failure::Kind::interrupted;
      const bool passes = failure.kind() == Failure::Kind::unreachable;
      if (!was_interrupted && (!passes || Clock::now() >= patience.until)) throw;
      if (passes && patience.retrying) patience.retrying(failure);
      next_try = std::min(patience.until, later(Clock::now(), retry_after));
      retry_after = std::min(retry_after * 2, longest_retry);
    }
    if (turn) {
      co_await sleep_until_turn(wakeup, *turn, patience);
    } else if (!was_interrupted) {
      co_await sleep(wakeup, next_try);
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
