#include "store/etcd/etcd_inspector.hpp"

#include <algorithm>
#include <utility>

#include "store/etcd/keys.hpp"
#include "store/etcd/name_space.hpp"
#include "store/etcd/steps.hpp"

namespace dlock::etcd {
namespace {

// The number of requests in flight at the same time.
constexpr std::size_t at_once = 64;

}  // namespace

// Adds when the leases of the holders end, which the entries do not contain. These are
// lower bounds: etcd counts in whole seconds.
asio::awaitable<void> EtcdInspector::fill_ends(std::vector<LockInfo>& locks,
                                               const std::vector<LockSnapshot>& snapshots,
                                               Clock::time_point until, Wakeup& wakeup) {
  std::vector<std::pair<HolderInfo*, std::int64_t>> leases;
  for (std::size_t i = 0; i < locks.size(); ++i) {
    auto holder = locks[i].holders.begin();
    for (const auto& entry : snapshots[i].entries) {
      if (!is_holder(snapshots[i], entry)) continue;
      if (entry.lease != 0) leases.emplace_back(&*holder, entry.lease);
      ++holder;
    }
  }
  for (std::size_t first = 0; first < leases.size(); first += at_once) {
    const auto end = std::min(first + at_once, leases.size());
    std::vector<Request> requests;
    for (auto i = first; i < end; ++i) {
      requests.emplace_back(LeaseTimeToLiveRequest{leases[i].second});
    }
    const auto results =
        co_await calls_.together(std::move(requests), Repeat::freely, until, wakeup);
    for (auto i = first; i < end; ++i) {
      const auto& left = std::get<LeaseTimeToLiveResult>(results.at(i - first));
      const auto seconds = std::max<std::int64_t>(left.ttl, 0);
      leases[i].first->expires_in = std::chrono::seconds(seconds);
      leases[i].first->is_expiry_unknown = false;
    }
  }
}

asio::awaitable<LockInfo> EtcdInspector::info_from(LockName lock, TxnRequest look,
                                                   Wakeup& wakeup) {
  const auto until = calls_.budget_end();
  const auto result = co_await calls_.txn(std::move(look), Repeat::freely, until, wakeup);
  std::vector<LockSnapshot> snapshots{snapshot_from(lock, result)};
  std::vector<LockInfo> infos{info_of(snapshots.front(), lock, wall_now())};
  co_await fill_ends(infos, snapshots, until, wakeup);
  co_return std::move(infos.front());
}

asio::awaitable<LockInfo> EtcdInspector::inspect(const LockName& lock, Wakeup& wakeup) {
  return info_from(lock, look_at(lock), wakeup);
}

asio::awaitable<LockInfo> EtcdInspector::inspect_for_sure(const LockName& lock,
                                                          Wakeup& wakeup) {
  return info_from(lock, written_look_at(lock), wakeup);
}

asio::awaitable<std::vector<LockInfo>> EtcdInspector::list(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  const auto until = calls_.budget_end();
  auto found = co_await read_name_space(calls_, name_space, until, wakeup);
  std::vector<LockInfo> locks;
  std::vector<LockSnapshot> snapshots;
  for (auto& [name, snapshot] : found.snapshots) {
    if (!matches(name)) continue;
    auto info = info_of(snapshot, {name_space, name}, wall_now());
    if (info.holders.empty() && info.waiters.empty() && !info.last_run) continue;
    locks.push_back(std::move(info));
    snapshots.push_back(std::move(snapshot));
  }
  co_await fill_ends(locks, snapshots, until, wakeup);
  co_return locks;
}

asio::awaitable<std::vector<RunInfo>> EtcdInspector::history(const LockName& lock,
                                                             Wakeup& wakeup) {
  auto request = look_at(lock);
  const auto until = calls_.budget_end();
  const auto result =
      co_await calls_.txn(std::move(request), Repeat::freely, until, wakeup);
  co_return history_of(snapshot_from(lock, result), wall_now());
}

asio::awaitable<std::vector<LockHistory>> EtcdInspector::histories(
    const std::string& name_space, std::function<bool(const std::string&)> matches,
    Wakeup& wakeup) {
  const auto until = calls_.budget_end();
  const auto found = co_await read_name_space(calls_, name_space, until, wakeup);
  std::vector<LockHistory> histories;
  const auto now = wall_now();
  for (const auto& [name, snapshot] : found.snapshots) {
    if (!matches(name)) continue;
    auto runs = history_of(snapshot, now);
    if (!runs.empty()) histories.push_back({{name_space, name}, std::move(runs), now});
  }
  co_return histories;
}

}  // namespace dlock::etcd
