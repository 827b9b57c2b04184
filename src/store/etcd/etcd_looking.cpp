// EtcdClaimant: reading the state of the lock.
#include <algorithm>
#include <utility>

#include "store/etcd/etcd_claimant.hpp"
#include "store/etcd/keys.hpp"
#include "store/etcd/lease_time.hpp"

namespace dlock::etcd {

asio::awaitable<void> EtcdClaimant::look(CallContext& call) {
  auto request = look_at(claim().lock);
  const auto result =
      co_await calls_.txn(std::move(request), Repeat::freely, call.until, call.wakeup);
  call.snapshot = snapshot_from(claim().lock, result);
}

// Reads the records of runs only where they can matter.
TxnRequest EtcdClaimant::first_look() const {
  const bool goes_by_runs = claim().dedupe || claim().supersedes;
  return goes_by_runs ? look_at(claim().lock) : glance_at(claim().lock);
}

// A glance does not contain the runs against which waiters are deduplicated.
asio::awaitable<void> EtcdClaimant::take_first_look(const TxnResult& result,
                                                    CallContext& call) {
  call.snapshot = snapshot_from(claim().lock, result);
  const auto& entries = call.snapshot.entries;
  const bool is_glance = result.results.size() == 1;
  const bool needs_runs =
      is_glance && std::any_of(entries.begin(), entries.end(),
                               [](const Entry& e) { return e.dedupe.has_value(); });
  if (needs_runs) co_await look(call);
}

asio::awaitable<void> EtcdClaimant::glance(CallContext& call) {
  auto request = first_look();
  const auto result =
      co_await calls_.txn(std::move(request), Repeat::freely, call.until, call.wakeup);
  co_await take_first_look(result, call);
}

// Reads the lock while the lease is granted that most new claims need next: the grant
// waits for the cluster's disks, and the read costs no extra time. The entry itself must
// not be sent before its lease is granted: etcd would often refuse it, and if both
// arrived after the claim was abandoned, they would hold the lock without a holder.
asio::awaitable<void> EtcdClaimant::glance_with_lease(CallContext& call) {
  lease_ = lease_for(claim().token, times_);
  std::vector<Request> requests;
  requests.emplace_back(LeaseGrantRequest{lease_, seconds_for(claim())});
  requests.emplace_back(first_look());
  const auto sent_at = Clock::now();
  const auto results = co_await calls_.together(std::move(requests), Repeat::freely,
                                                call.until, call.wakeup);
  take_granted(std::get<LeaseGrantResult>(results.at(0)), sent_at);
  co_await take_first_look(std::get<TxnResult>(results.at(1)), call);
}

}  // namespace dlock::etcd
