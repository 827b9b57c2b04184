#include "lease/keeper.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "util/bits.hpp"
#include "util/failure.hpp"

namespace dlock {

LeaseWatcher& LeaseGroup::add(Clock::time_point deadline) {
  return members_.emplace_back(*this, deadline);
}

void LeaseGroup::Member::extend(Clock::time_point deadline) {
  deadline_ = deadline;
  auto earliest = deadline;
  for (const auto& member : group_.members_) {
    earliest = std::min(earliest, member.deadline());
  }
  group_.command_.extend(earliest);
}

OutagePolicy::OutagePolicy(OnOutage on_outage, LeaseTiming timing,
                           Clock::time_point deadline, LeaseWatcher& command,
                           std::function<void(const std::string&)> warn)
    : on_outage_(on_outage),
      timing_(timing),
      deadline_(deadline),
      command_(command),
      warn_(std::move(warn)) {}

void OutagePolicy::extend(Clock::time_point deadline) {
  deadline_ = deadline;
  in_outage_ = false;
  has_warned_ = false;
  command_.extend(deadline);
}

void OutagePolicy::renewal_failed(Clock::time_point now, const std::string& why) {
  command_.renewal_failed(now, why);
  if (on_outage_ == OnOutage::stop) return;
  if (!in_outage_) command_.extend(Clock::time_point::max());
  in_outage_ = true;
  // When the command would have been stopped. Most outages are over before that.
  if (has_warned_ || now < deadline_ - timing_.margin() - timing_.grace()) return;
  has_warned_ = true;
  warn_(
      "the lock cannot be renewed; the command continues unprotected (--on-outage run)");
}

void OutagePolicy::forfeit(Loss loss) {
  if (!in_outage_) {
    command_.forfeit(loss);
    return;
  }
  lost_ = loss;
  warn_(
      "the lock was lost during a store outage; the command continues unprotected "
      "(--on-outage run)");
}

bool OutagePolicy::has_held(Clock::time_point now) const {
  return !lost_ && now < deadline_;
}

namespace {

// Listening starts after this time, because it is not worth its cost for a shorter run.
// Also the interval between checks of a lease without notifications.
constexpr milliseconds look_after{1000};

// The interval of checks that nothing calls for. A store may use them to keep its files
// from looking unused.
constexpr milliseconds look_anyway = std::chrono::hours(6);

}  // namespace

Clock::time_point next_renewal(const LeaseTiming& timing, Clock::time_point sent_at,
                               int failures, Clock::time_point now) {
  if (failures == 0) {
    const auto tenth = static_cast<std::uint64_t>(timing.renew_every().count()) / 10;
    const milliseconds earlier(random_up_to(tenth));
    return later(sent_at, timing.renew_every() - earlier);
  }
  return later(now, growing_pause(failures, timing.longest_retry()));
}

struct LeaseKeeper::State {
  State(asio::io_context& at, Claimant& of, bool lease_can_expire,
        LeaseTiming lease_timing, LeaseWatcher& told)
      : context(at),
        claimant(of),
        can_expire(lease_can_expire),
        timing(lease_timing),
        watcher(told),
        wakeup(at),
        first_look(at) {}

  // When to ask again if there is no notification before.
  Clock::time_point next_look(Clock::time_point now) const {
    if (can_expire) return next_renewal(timing, confirmed_at, failures, now);
    const bool is_interrupted = news == nullptr || news->is_interrupted();
    return is_interrupted || failures > 0 ? now + look_after : now + look_anyway;
  }

  asio::io_context& context;
  Claimant& claimant;
  bool can_expire;
  LeaseTiming timing;
  LeaseWatcher& watcher;
  Wakeup wakeup;
  asio::steady_timer first_look;
  Clock::time_point listen_at;
  bool listens = false;
  std::unique_ptr<LeaseNews> news;

  Clock::time_point confirmed_at;
  int failures = 0;
  bool told_broken = false;

  bool stops = false;
  bool has_news = false;
  bool renews = false;           // a renewal is in progress
  Wakeup* awaited_by = nullptr;  // notified when it is over
};

LeaseKeeper::LeaseKeeper(asio::io_context& context, Claimant& claimant, bool can_expire,
                         LeaseTiming timing, LeaseWatcher& watcher)
    : state_(std::make_shared<State>(context, claimant, can_expire, timing, watcher)) {}

LeaseKeeper::~LeaseKeeper() {
  stop();
  state_->news.reset();
}

void LeaseKeeper::start(Clock::time_point granted_at) {
  const auto state = state_;
  const auto begin = [state] {
    if (state->stops) return;  // the watcher may no longer exist
    asio::co_spawn(state->context, keep(state), [state](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);
    });
  };
  state->confirmed_at = granted_at;
  state->listen_at = later(Clock::now(), look_after);
  if (state->can_expire) {
    state->wakeup.prepare();
    asio::post(state->context, begin);
    return;
  }
  state->first_look.expires_after(look_after);
  state->first_look.async_wait([begin](boost::system::error_code error) {
    if (!error) begin();
  });
}

void LeaseKeeper::stop() {
  state_->stops = true;
  state_->first_look.cancel();
  if (state_->news != nullptr) state_->news->stop();
  state_->wakeup.notify();
}

void LeaseKeeper::interrupt() { state_->wakeup.give_up(true); }

asio::awaitable<void> LeaseKeeper::ended(Wakeup& wakeup) {
  state_->awaited_by = &wakeup;
  while (state_->renews) co_await wakeup.wait_until(Clock::time_point::max());
  state_->awaited_by = nullptr;
}

asio::awaitable<void> LeaseKeeper::keep(std::shared_ptr<State> state) {
  for (;;) {
    co_await sleep(*state);
    if (state->stops) co_return;
    const bool goes_on = co_await renew(*state);
    if (!goes_on) co_return;
  }
}

void LeaseKeeper::listen(State& state) {
  state.listens = true;
  try {
    state.news = state.claimant.listen([&state] {
      state.has_news = true;
      state.wakeup.notify();
    });
  } catch (const Failure&) {
    // The lease is checked periodically then.
  }
}

// Sleeps until it is time to renew or check the lease, or to stop.
asio::awaitable<void> LeaseKeeper::sleep(State& state) {
  auto next = state.next_look(Clock::now());
  while (!state.stops && !state.has_news && Clock::now() < next) {
    if (!state.listens && Clock::now() >= state.listen_at) {
      listen(state);
      // Earlier events were missed, so check now.
      if (!state.can_expire) break;
    }
    const auto until = state.listens ? next : std::min(next, state.listen_at);
    co_await state.wakeup.wait_until(until);
  }
  state.has_news = false;
}

// False once the lease is certainly lost.
asio::awaitable<bool> LeaseKeeper::renew(State& state) {
  const auto sent_at = Clock::now();
  std::optional<Renewal> renewal;
  std::string why_not;
  state.renews = true;
  try {
    renewal = co_await state.claimant.renew(state.wakeup);
  } catch (const Failure& failure) {
    // Whatever the failure: the lease was not renewed, and the deadline stays.
    why_not = failure.what();
  }
  state.renews = false;
  if (state.awaited_by != nullptr) state.awaited_by->notify();
  if (state.stops) co_return false;  // the watcher may no longer exist
  if (!renewal) {
    ++state.failures;
    if (state.can_expire) state.watcher.renewal_failed(Clock::now(), why_not);
    co_return true;
  }
  switch (*renewal) {
    case Renewal::taken_over: state.watcher.forfeit(Loss::taken_over); co_return false;
    case Renewal::failed_over: state.watcher.forfeit(Loss::failed_over); co_return false;
    case Renewal::gone: state.watcher.forfeit(Loss::gone); co_return false;
    case Renewal::reclaimed: state.watcher.reclaimed(); break;
    case Renewal::broken: {
      const auto taker = state.claimant.taken_by();
      if (!taker || !taker->forced) break;
      state.watcher.forfeit(Loss::broken);  // it was not renewed
      co_return false;
    }
    case Renewal::confirmed: break;
  }
  state.confirmed_at = sent_at;
  state.failures = 0;
  if (state.can_expire) state.watcher.extend(state.timing.deadline(sent_at));
  if (*renewal == Renewal::broken && !std::exchange(state.told_broken, true)) {
    state.watcher.forfeit(Loss::broken);
  }
  co_return true;
}

}  // namespace dlock
