// EtcdClaimant: sleeping until it may be its turn.
#include <algorithm>
#include <utility>

#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/keys.hpp"
#include "store/etcd/lease_time.hpp"

namespace dlock::etcd {
namespace {

// The pause before the next attempt if the watch fails.
constexpr milliseconds pause_after_failure{300};

// A waiter is woken when it may be its turn, and asks again. After several waits that
// were over at once, each further one lasts longer, up to a limit: a server that always
// wakes it, or always ends its watch, must not be asked without end.
constexpr milliseconds hardly_waited{50};
constexpr unsigned many_wakes = 8;
constexpr milliseconds longest_pause{200};

milliseconds pause_after(unsigned quick_wakes) {
  if (quick_wakes <= many_wakes) return milliseconds(0);
  const auto doublings = std::min(quick_wakes - many_wakes, 8U);
  return std::min(milliseconds(1U << doublings), longest_pause);
}

asio::awaitable<void> pause_until(Clock::time_point end, Wakeup& wakeup) {
  co_await wakeup.sleep_until(end);
}

WatchRequest request_for(const LockName& lock, const Watched& watched,
                         std::int64_t from) {
  WatchRequest request;
  request.key = queue_prefix(lock) + watched.id;
  if (watched.id.empty()) request.range_end = end_of_prefix(request.key);
  request.start_revision = from;
  request.no_put = !watched.puts;
  return request;
}

}  // namespace

asio::awaitable<void> EtcdClaimant::await_turn(Wakeup& wakeup, Clock::time_point until) {
  const auto began = Clock::now();
  bool has_failed = false;
  try {
    co_await listen_for_turn(wakeup, until);
  } catch (const Failure& failure) {
    if (failure.kind() == Failure::Kind::interrupted) throw;
    has_failed = true;  // the next request reports the failure
  }
  if (has_failed) watch_.reset();
  quick_wakes_ = Clock::now() - began < hardly_waited ? quick_wakes_ + 1 : 0;
  const auto pause = has_failed ? pause_after_failure : pause_after(quick_wakes_);
  co_await pause_until(std::min(until, later(Clock::now(), pause)), wakeup);
}

// The place in the queue is renewed as often as a held lease.
asio::awaitable<void> EtcdClaimant::listen_for_turn(Wakeup& wakeup,
                                                    Clock::time_point until) {
  const bool is_watching = co_await start_watch(wakeup);
  if (!is_watching) co_return;
  const auto every = claim().ttl / 3;
  auto renewed = lasts_from_.value_or(Clock::now());
  while (Clock::now() < until) {
    const auto next = later(renewed, every);
    const auto update = co_await watch_->next(std::min(until, next), wakeup);
    if (update.kind == WatchUpdate::Kind::broken ||
        update.kind == WatchUpdate::Kind::compacted) {
      watch_.reset();
      co_return;
    }
    if (update.kind == WatchUpdate::Kind::events) co_return;
    if (Clock::now() < next) {
      if (wakeup.gives_up()) co_return;
      continue;
    }
    renewed = Clock::now();
    LeaseKeepAliveRequest request{lease_};
    const auto alive =
        co_await calls_.lease_keep_alive(request, calls_.budget_end(), wakeup);
    if (alive.ttl == 0) co_return;  // the place is gone, too
  }
}

// Starts the watch at the revision of the last snapshot. False if the lock has to be read
// again first.
asio::awaitable<bool> EtcdClaimant::start_watch(Wakeup& wakeup) {
  const auto* own = waits_in_ ? entry_of(*waits_in_, id()) : nullptr;
  if (own == nullptr) co_return false;
  const auto wanted = watched_by(*waits_in_, *own);
  if (watch_ && !watch_->is_broken() && wanted == watched_) co_return true;
  watched_ = wanted;
  watch_ = std::make_unique<Watch>(calls_);
  std::vector<WatchRequest> requests{
      request_for(claim().lock, wanted, waits_in_->revision + 1)};
  co_await watch_->start(std::move(requests), calls_.budget_end(), wakeup);
  co_return true;
}

}  // namespace dlock::etcd
