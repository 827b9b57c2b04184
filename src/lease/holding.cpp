#include "lease/holding.hpp"

#include <algorithm>
#include <memory>

#include "loop/wakeup.hpp"
#include "util/text.hpp"

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
asio::awaitable<void> sleep_until_turn(Call turn, const TurnPatience& patience) {
  for (;;) {
    const auto turn_in = left_until(turn.until);
    if (turn_in.count() <= 0 || turn.wakeup.gives_up()) break;
    const auto good_for =
        patience.waiting ? patience.waiting(turn_in) : milliseconds::max();
    co_await turn.within(good_for).sleep();
  }
  co_await turn.sleep();
}

}  // namespace

asio::awaitable<Answer> acquire(Claimant& claimant, const Patience& patience,
                                Wakeup& wakeup) {
  const auto& claim = claimant.claim();
  const Call waiting{patience.until.value_or(Clock::time_point::min()), wakeup};
  const bool may_wait = patience.until && !waiting.is_over();
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
      if (waiting.is_over()) queue = Queue::refuse;
      auto answer = co_await claimant.ask(queue, wakeup);
      const auto* busy = std::get_if<Busy>(&answer);
      if (busy == nullptr || queue == Queue::refuse) co_return answer;
      const bool is_out = queue == Queue::join && busy->place == 0 &&
                          (claim.max_queue || !claimant.bounds_its_queues());
      if (is_out) co_return answer;  // the queue is too long for it, or it lost its place
      if (waiting.is_over()) continue;
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
      if (!absent || !patience.waits_for_store || waiting.is_over()) throw;
      failure = error;  // co_await is not allowed in a handler
    }
    if (!failure) {
      co_await claimant.await_turn(waiting.within(good_for));
      co_await waiting.within(restraint.pause(Clock::now())).sleep();
    } else {
      if (patience.retrying) patience.retrying(*failure);
      co_await waiting.within(pause.next()).wait();
    }
    if (wakeup.gives_up()) throw Failure::interrupted("interrupted");
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
      co_await sleep_until_turn({*turn, wakeup}, patience);
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
  throw Failure::interrupted("interrupted");
}

namespace {

// How often a lease is requested again.
constexpr int most_repeats = 3;

// The last moment of a wait: what is in progress is given up then, whatever it is.
class LastMoment {
 public:
  LastMoment(asio::io_context& context, Call wait)
      : state_(std::make_shared<State>(context, wait.wakeup)) {
    asio::co_spawn(context, give_up_at(state_, wait.until), [](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);
    });
  }
  ~LastMoment() {
    state_->is_over = true;
    state_->wakeup.notify();
  }
  LastMoment(const LastMoment&) = delete;
  LastMoment& operator=(const LastMoment&) = delete;

  bool has_come() const { return state_->has_come; }

 private:
  struct State {
    State(asio::io_context& context, Wakeup& waiting)
        : wakeup(context), waiter(waiting) {}

    Wakeup wakeup;
    Wakeup& waiter;  // may no longer exist once it is over
    bool is_over = false;
    bool has_come = false;
  };

  static asio::awaitable<void> give_up_at(std::shared_ptr<State> state,
                                          Clock::time_point moment) {
    while (!state->is_over && Clock::now() < moment) {
      co_await state->wakeup.wait_until(moment);
    }
    if (state->is_over) co_return;
    state->has_come = true;
    state->waiter.give_up(true);
  }

  std::shared_ptr<State> state_;
};

}  // namespace

Holding::Holding(asio::io_context& context, Wakeup& wakeup, Store& store,
                 const Claim& claim, const LeaseTiming& timing)
    : context_(context),
      wakeup_(wakeup),
      store_(store),
      claimant_(store.claimant(claim)),
      timing_(timing) {}

Holding::~Holding() = default;

void Holding::note(const Answer& answer) {
  const auto* granted = std::get_if<Grant>(&answer);
  grant_ = granted == nullptr ? std::nullopt : std::optional(*granted);
  if (!grant_) return;
  lost_.reset();
  why_not_renewed_.reset();
}

asio::awaitable<Answer> Holding::obtain(const Patience& patience) {
  std::optional<LastMoment> last;
  const auto now = Clock::now();
  const auto until = std::max(patience.until.value_or(now), now);
  if (until < Clock::time_point::max()) {
    const auto end = later(until, timing_.budget());
    if (until > now) last.emplace(context_, Call{end, wakeup_});
    wakeup_.finish_by(end);
  }
  try {
    auto answer = co_await acquire(*claimant_, patience, wakeup_);
    note(answer);
    if (grant_) wakeup_.finish_by(Clock::time_point::max());
    co_return answer;
  } catch (const Failure& failure) {
    const bool is_late = last && last->has_come();
    if (failure.kind() != Failure::Kind::interrupted || !is_late) throw;
    throw Failure::unreachable(printable(store_.url()) + " did not reply within " +
                               for_people(timing_.budget()));
  }
}

asio::awaitable<Answer> Holding::ask_again() {
  if (repeats_++ == most_repeats) {
    throw Failure::unreachable(
        "the store is too slow for so short a lease; use a longer --ttl");
  }
  auto answer = co_await claimant_->ask(Queue::refuse, wakeup_);
  note(answer);
  co_return answer;
}

asio::awaitable<Renewal> Holding::take_over() {
  Grant grant;
  grant.sent_at = Clock::now();
  const auto renewal = co_await claimant_->renew(wakeup_);
  grant.deadline = timing_.deadline(grant.sent_at);
  if (renewal == Renewal::confirmed) grant_ = grant;
  co_return renewal;
}

bool Holding::lasts(milliseconds span) const {
  return grant_ && !lost_ && grant_->deadline - Clock::now() >= span;
}

Clock::time_point Holding::lease_end() const {
  return later(grant_->deadline, timing_.drift() + claim().lock_delay);
}

void Holding::prepare_to_keep(LeaseWatcher* watcher) {
  watcher_ = watcher;
  // A detached lease expires in any store.
  const bool can_expire = store_.leases_expire() || !claim().attached;
  LeaseWatcher& self = *this;  // which emplace() may not convert to
  keeper_.emplace(context_, *claimant_, can_expire, timing_, self);
}

void Holding::keep() {
  if (keeper_) keeper_->start(grant_->sent_at);
}

void Holding::stop_renewing() {
  if (keeper_) keeper_->stop();
}

asio::awaitable<void> Holding::stop_keeping() {
  if (!keeper_) co_return;
  keeper_->stop();
  if (wakeup_.gives_up()) keeper_->interrupt();
  co_await keeper_->ended(wakeup_);
}

asio::awaitable<Release> Holding::release(const std::optional<RunEnd>& end,
                                          Wakeup& wakeup) {
  co_return co_await claimant_->release(end, wakeup);
}

asio::awaitable<bool> Holding::release_by(Clock::time_point until,
                                          const std::optional<RunEnd>& end,
                                          milliseconds pause, bool asks_first) {
  do {
    try {
      if (asks_first) co_await store_.inspector().inspect(claim().lock, wakeup_);
      co_await claimant_->release(end, wakeup_);
      co_return true;
    } catch (const Failure&) {
      // It does not reply yet.
    }
    co_await wakeup_.sleep_until(std::min(until, later(Clock::now(), pause)));
  } while (Clock::now() < until && !wakeup_.gives_up());
  co_return false;
}

void Holding::extend(Clock::time_point deadline) {
  why_not_renewed_.reset();
  grant_->deadline = deadline;
  if (watcher_ != nullptr) watcher_->extend(deadline);
}

void Holding::renewal_failed(Clock::time_point now, const std::string& why) {
  why_not_renewed_ = why;
  if (watcher_ != nullptr) watcher_->renewal_failed(now, why);
}

void Holding::reclaimed() {
  if (watcher_ != nullptr) watcher_->reclaimed();
}

void Holding::forfeit(Loss loss) {
  lost_ = loss;
  if (watcher_ != nullptr) watcher_->forfeit(loss);
  wakeup_.notify();
}

}  // namespace dlock
