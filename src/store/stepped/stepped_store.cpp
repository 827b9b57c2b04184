#include "store/stepped/stepped_store.hpp"

#include <unistd.h>

#include <utility>

#include "lock/history.hpp"
#include "rules/granting.hpp"
#include "rules/look.hpp"
#include "rules/state.hpp"
#include "store/stepped/state_store.hpp"
#include "store/stepped/stepped_claimant.hpp"
#include "util/users.hpp"

namespace dlock::stepped {
namespace {

LockInfo info_from(const LockName& lock, const StateStore::Snapshot& read) {
  return rules::info_of(read.state, lock, read.now, rules::ClockLiveness(read.now));
}

}  // namespace

Clock::time_point SteppedStore::budget_end() const {
  return later(Clock::now(), states_->timeout());
}

std::unique_ptr<Claimant> SteppedStore::claimant(const Claim& claim) {
  return std::make_unique<SteppedClaimant>(context_, *states_, claim);
}

asio::awaitable<std::vector<Broken>> SteppedStore::break_leases(const LockName& lock,
                                                                const Break& order,
                                                                Wakeup& wakeup) {
  const Taker self{user_name(::geteuid()), host_name(), false, order.by_force};
  using Holders = std::vector<rules::Holder>;
  const Rule<Holders> rule = [&](rules::State& state, rules::Moment now,
                                 const rules::Liveness& liveness,
                                 rules::Consequences& then, StateStore::Change& change) {
    auto holders = rules::break_leases(state, order.fences, self, now, liveness, then);
    for (const auto& holder : holders) change.wake.push_back(holder.party.session);
    return holders;
  };
  bool unanswered = false;
  const auto step = co_await take(*states_, lock, rule, budget_end(), unanswered, wakeup);
  std::vector<Broken> broken;
  for (const auto& holder : step.answer) {
    broken.emplace_back().holder = rules::info_of(holder, step.read.now);
  }
  co_return broken;
}

asio::awaitable<LockInfo> SteppedStore::inspect(const LockName& lock, Wakeup& wakeup) {
  const auto read =
      co_await states_->read(lock, StateStore::Access::optimistic, budget_end(), wakeup);
  co_return info_from(lock, read);
}

asio::awaitable<std::vector<LockInfo>> SteppedStore::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  const auto all = co_await states_->read_all(name_space, budget_end(), wakeup);
  std::vector<LockInfo> locks;
  for (const auto& [lock, read] : all) {
    if (!matches(lock.name)) continue;
    auto info = info_from(lock, read);
    const bool is_listed =
        !info.holders.empty() || !info.waiters.empty() || info.last_run;
    if (is_listed) locks.push_back(std::move(info));
  }
  co_return locks;
}

asio::awaitable<std::vector<RunInfo>> SteppedStore::history(const LockName& lock,
                                                            Wakeup& wakeup) {
  const auto read =
      co_await states_->read(lock, StateStore::Access::optimistic, budget_end(), wakeup);
  auto runs =
      rules::runs_of_holders(read.state, read.now, rules::ClockLiveness(read.now));
  runs.insert(runs.end(), read.state.runs.begin(), read.state.runs.end());
  co_return as_history(std::move(runs), read.now.wall);
}

}  // namespace dlock::stepped
