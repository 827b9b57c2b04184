// EtcdClaimant: reading the line of the lock.
#include <algorithm>
#include <utility>

#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/keys.hpp"
#include "store/etcd/lease_time.hpp"

namespace dlock::etcd {

asio::awaitable<void> EtcdClaimant::look(Turn& turn) {
  auto request = look_at(claim().lock);
  const auto result =
      co_await calls_.txn(std::move(request), Repeat::freely, turn.until, turn.wakeup);
  turn.line = line_from(claim().lock, result);
}

// The whole lock where its runs can matter.
TxnRequest EtcdClaimant::first_look() const {
  const bool goes_by_runs = claim().dedupe || claim().supersedes;
  return goes_by_runs ? look_at(claim().lock) : glance_at(claim().lock);
}

// A glance says nothing of the runs that end the wait of others.
asio::awaitable<void> EtcdClaimant::take_first_look(const TxnResult& result, Turn& turn) {
  turn.line = line_from(claim().lock, result);
  const auto& entries = turn.line.entries;
  const bool is_glance = result.results.size() == 1;
  const bool needs_runs =
      is_glance && std::any_of(entries.begin(), entries.end(),
                               [](const Entry& e) { return e.dedupe.has_value(); });
  if (needs_runs) co_await look(turn);
}

asio::awaitable<void> EtcdClaimant::glance(Turn& turn) {
  auto request = first_look();
  const auto result =
      co_await calls_.txn(std::move(request), Repeat::freely, turn.until, turn.wakeup);
  co_await take_first_look(result, turn);
}

// Reads the line while the lease is granted that most newcomers need next: that takes as
// long as the disk of the cluster, and the look nothing besides. The entry itself must
// not go out before its lease is granted: etcd would refuse it as often as not, and where
// both come late, after the claim was given up, they would hold the lock for nobody.
asio::awaitable<void> EtcdClaimant::glance_with_lease(Turn& turn) {
  lease_ = lease_for(claim().token, times_);
  std::vector<Request> requests;
  requests.emplace_back(LeaseGrantRequest{lease_, seconds_for(claim())});
  requests.emplace_back(first_look());
  const auto sent_at = Clock::now();
  const auto results = co_await calls_.together(std::move(requests), Repeat::freely,
                                                turn.until, turn.wakeup);
  take_granted(std::get<LeaseGrantResult>(results.at(0)), sent_at);
  co_await take_first_look(std::get<TxnResult>(results.at(1)), turn);
}

}  // namespace dlock::etcd
