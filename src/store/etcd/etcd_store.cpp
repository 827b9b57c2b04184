#include "store/etcd/etcd_store.hpp"

#include <algorithm>
#include <utility>

#include "store/etcd/day_lease.hpp"
#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/etcd_queue.hpp"
#include "store/etcd/steps.hpp"

namespace dlock::etcd {
EtcdStore::EtcdStore(std::string url, std::unique_ptr<Calls> calls)
    : url_(std::move(url)),
      calls_(std::move(calls)),
      inspector_(*calls_),
      registers_(*calls_) {}

std::unique_ptr<Claimant> EtcdStore::claimant(const Claim& claim) {
  return std::make_unique<EtcdClaimant>(*calls_, claim);
}

asio::awaitable<std::vector<Broken>> EtcdStore::break_leases(const LockName& lock,
                                                             const Break& order,
                                                             Wakeup& wakeup) {
  const auto until = calls_->budget_end();
  DayLease day_lease(*calls_, lock.name_space);
  auto request = look_at(lock);
  auto result = co_await calls_->txn(std::move(request), Repeat::freely, until, wakeup);
  auto snapshot = snapshot_from(lock, result);
  auto self = taker(false);
  self.forced = order.by_force;
  auto decision = decide_on_break(snapshot, order, wall_now());
  const auto meant = std::move(decision.meant);
  for (; !decision.lose.empty();
       decision = decide_on_break(snapshot, order, wall_now())) {
    const StepContext step_context{lock, wall_now(), day_lease.id()};
    request = take_away(step_context, decision.lose, self);
    result = co_await calls_->txn(std::move(request), Repeat::freely, until, wakeup);
    if (result.lease_gone) {
      co_await day_lease.set_up(until, wakeup);
      request = look_at(lock);
      result = co_await calls_->txn(std::move(request), Repeat::freely, until, wakeup);
    }
    snapshot = snapshot_from(lock, result, result.results.size() - 2);
  }
  std::vector<Broken> broken;
  broken.reserve(meant.size());
  for (const auto& holder : meant) broken.push_back({holder, {}});
  co_return broken;
}

std::unique_ptr<Store> store_of(std::string url, const Access& access,
                                milliseconds timeout, asio::io_context& context) {
  return std::make_unique<EtcdStore>(std::move(url),
                                     std::make_unique<Calls>(context, access, timeout));
}

}  // namespace dlock::etcd
