#include "lease/holding.hpp"

#include <algorithm>

namespace dlock {
namespace {

// How often a lease is requested again.
constexpr int most_repeats = 3;

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
  auto answer = co_await acquire(*claimant_, patience, wakeup_);
  note(answer);
  co_return answer;
}

asio::awaitable<Answer> Holding::ask_again() {
  if (repeats_++ == most_repeats) {
    throw Failure(Failure::Kind::unreachable,
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
