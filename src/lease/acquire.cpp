#include "lease/acquire.hpp"

#include <algorithm>

#include "loop/retry.hpp"

namespace dlock {
namespace {

// The claimant of a single server may pause before this many wake-ups, and of several
// servers one may wake it without a reason.
constexpr int most_at_once = 16;

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
  auto retry_after = first_retry;
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
      const bool is_full = queue == Queue::join && busy->place == 0;
      if (is_full) co_return answer;  // the queue is too long for it
      if (Clock::now() >= until) continue;
      retry_after = first_retry;
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
      co_await wakeup.wait_until(std::min(until, later(Clock::now(), retry_after)));
      retry_after = std::min(retry_after * 2, longest_retry);
    }
    if (wakeup.gives_up()) throw Failure(Failure::Kind::interrupted, "interrupted");
  }
}

Failure lease_too_short() {
  return Failure(Failure::Kind::unreachable,
                 "the store is too slow for so short a lease; use a longer --ttl");
}

}  // namespace dlock
