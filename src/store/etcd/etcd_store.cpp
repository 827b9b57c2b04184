#include "store/etcd/etcd_store.hpp"

#include <algorithm>
#include <utility>

#include "store/etcd/day_lease.hpp"
#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/queue_rules.hpp"
#include "store/etcd/steps.hpp"

namespace dlock::etcd {
namespace {

std::vector<Entry> holders_with(const LockSnapshot& snapshot,
                                const std::vector<Fence>& fences) {
  std::vector<Entry> found;
  for (const auto& entry : snapshot.entries) {
    if (!is_holder(snapshot, entry)) continue;
    if (std::find(fences.begin(), fences.end(), entry.fence()) == fences.end()) continue;
    found.push_back(entry);
  }
  return found;
}

// Those that are left to take the lock from; as many as fit into one transaction.
std::vector<Entry> losers(const LockSnapshot& snapshot, const Break& order) {
  auto found = holders_with(snapshot, order.fences);
  std::erase_if(found, [&](const Entry& entry) {
    return !order.by_force && entry.standing == Standing::broken;
  });
  if (found.size() > most_in_one_step) found.resize(most_in_one_step);
  return found;
}

}  // namespace

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
  const auto as_they_were = holders_with(snapshot, order.fences);
  auto self = taker(false);
  self.forced = order.by_force;
  for (auto left = losers(snapshot, order); !left.empty();
       left = losers(snapshot, order)) {
    const StepContext step_context{lock, wall_now(), day_lease.id()};
    request = take_away(step_context, left, self);
    result = co_await calls_->txn(std::move(request), Repeat::freely, until, wakeup);
    if (result.lease_gone) {
      co_await day_lease.set_up(until, wakeup);
      request = look_at(lock);
      result = co_await calls_->txn(std::move(request), Repeat::freely, until, wakeup);
    }
    snapshot = snapshot_from(lock, result, result.results.size() - 2);
  }
  std::vector<Broken> broken;
  broken.reserve(as_they_were.size());
  for (const auto& holder : as_they_were) {
    broken.push_back({holder_info(holder, wall_now()), {}});
  }
  co_return broken;
}

std::unique_ptr<Store> store_of(std::string url, const Access& access,
                                milliseconds timeout, asio::io_context& context) {
  return std::make_unique<EtcdStore>(std::move(url),
                                     std::make_unique<Calls>(context, access, timeout));
}

std::unique_ptr<Store> open(const StoreUrl& url, milliseconds timeout,
                            asio::io_context& context) {
  return store_of(url.text(), access_of(url), timeout, context);
}

}  // namespace dlock::etcd
