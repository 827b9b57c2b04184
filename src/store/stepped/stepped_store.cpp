#include "store/stepped/stepped_store.hpp"

#include <unistd.h>

#include <utility>

#include "lock/history.hpp"
#include "rules/granting.hpp"
#include "rules/keeping.hpp"
#include "rules/look.hpp"
#include "rules/state.hpp"
#include "store/stepped/state_store.hpp"
#include "store/stepped/stepped_claimant.hpp"
#include "util/process.hpp"
#include "util/users.hpp"

namespace dlock::stepped {
namespace {

LockInfo info_from(const StateStore& states, const LockName& lock,
                   const StateStore::Snapshot& read) {
  auto info = rules::info_of(read.state, lock, read.now, rules::ClockLiveness(read.now));
  if (states.is_copy()) {
    info.last_run = info.last_success = std::nullopt;
    info.past = {};
  }
  return info;
}

std::vector<RunInfo> history_from(const StateStore::Snapshot& read) {
  auto runs =
      rules::runs_of_holders(read.state, read.now, rules::ClockLiveness(read.now));
  runs.insert(runs.end(), read.state.runs.begin(), read.state.runs.end());
  return as_history(std::move(runs), read.now.wall);
}

// Reports what others tell, and once a second what is over though no step has told.
class SteppedWatching final : public WatchSession {
 public:
  SteppedWatching(StateStore& states, std::unique_ptr<WatchSession> told,
                  const Watched& watched, Wakeup& wakeup)
      : states_(states), told_(std::move(told)), watched_(watched), wakeup_(wakeup) {}

  asio::awaitable<void> begin() override { return told_->begin(); }

  asio::awaitable<void> go_on(EventSink& sink) override {
    co_await told_->go_on(sink);
    const auto now = Clock::now();
    if (now < next_look_) co_return;
    next_look_ = later(now, milliseconds(1000));
    const auto call = wakeup_.within(states_.timeout());
    const auto locks = co_await states_.overdue(watched_.name_space, call);
    for (const auto& lock : locks) {
      if (watched_.covers(lock)) co_await tidy(lock);
    }
  }

 private:
  asio::awaitable<void> tidy(LockName lock) {
    const Rule<bool> rule = [](const rules::Step& step, StateStore::Change&) {
      rules::tidy(step);
      return true;
    };
    bool unanswered = false;
    const auto call = wakeup_.within(states_.timeout());
    co_await take(states_, std::move(lock), rule, call, unanswered);
  }

  StateStore& states_;
  std::unique_ptr<WatchSession> told_;
  const Watched& watched_;
  Wakeup& wakeup_;
  Clock::time_point next_look_;
};

}  // namespace

std::unique_ptr<Claimant> SteppedStore::claimant(const Claim& claim) {
  return claimant_of(context_, *states_, claim);
}

asio::awaitable<std::vector<Broken>> SteppedStore::break_leases(const LockName& lock,
                                                                const Break& order,
                                                                Wakeup& wakeup) {
  const Taker self{user_name(::geteuid()), host_name(), false, order.by_force};
  using Holders = std::vector<rules::Holder>;
  const Rule<Holders> rule = [&](const rules::Step& step, StateStore::Change& change) {
    auto holders = rules::break_leases(step, order.fences, self);
    for (const auto& holder : holders) change.wake.push_back(holder.party.session);
    change.cause = {{}, {}, rules::fences_of(holders), self};
    return holders;
  };
  bool unanswered = false;
  const auto step = co_await take(*states_, lock, rule, new_call(wakeup), unanswered);
  std::vector<Broken> broken;
  for (const auto& holder : step.answer) {
    broken.emplace_back().holder = rules::info_of(holder, step.read.now);
  }
  co_return broken;
}

asio::awaitable<void> SteppedStore::watch(const Watched& watched, EventSink& sink,
                                          Wakeup& wakeup) {
  auto told = states_->watch(watched, wakeup);
  if (!told) {
    throw unsupported(url(), "watch");
  }
  NewWatchSession session = [&] {
    return std::make_unique<SteppedWatching>(*states_, told(), watched, wakeup);
  };
  co_await keep_watching(std::move(session), sink, wakeup);
}

asio::awaitable<LockInfo> SteppedStore::inspect(const LockName& lock, Wakeup& wakeup) {
  const auto read =
      co_await states_->read(lock, StateStore::Access::optimistic, new_call(wakeup));
  co_return info_from(*states_, lock, read);
}

asio::awaitable<std::vector<LockInfo>> SteppedStore::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  std::vector<LockInfo> locks;
  const StateStore::Taken take = [&](const LockName& lock, const auto& read) {
    if (!matches(lock.name)) return;
    auto info = info_from(*states_, lock, read);
    if (info.is_listed()) locks.push_back(std::move(info));
  };
  co_await states_->read_all(name_space, false, take, new_call(wakeup));
  co_return locks;
}

asio::awaitable<std::vector<RunInfo>> SteppedStore::history(const LockName& lock,
                                                            Wakeup& wakeup) {
  const auto read =
      co_await states_->read(lock, StateStore::Access::optimistic, new_call(wakeup));
  co_return history_from(read);
}

asio::awaitable<std::vector<LockHistory>> SteppedStore::histories(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  std::vector<LockHistory> found;
  const StateStore::Taken take = [&](const LockName& lock, const auto& read) {
    if (!matches(lock.name)) return;
    auto runs = history_from(read);
    if (!runs.empty()) found.push_back({lock, std::move(runs), read.now.wall});
  };
  co_await states_->read_all(name_space, true, take, new_call(wakeup));
  co_return found;
}

}  // namespace dlock::stepped
