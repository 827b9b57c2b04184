// The leases of etcd: how long they last, the one of the history of a day, and news of
// the entry on one.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lock/claimant.hpp"
#include "lock/lease.hpp"
#include "store/etcd/etcd_calls.hpp"

namespace dlock::etcd {

// The seconds to request, rounded up so that the cluster never ends a lease before its
// holder does; the cluster may grant more.
inline std::int64_t seconds_for(milliseconds span) {
  constexpr std::int64_t least = 1;
  return std::max(std::chrono::ceil<std::chrono::seconds>(span).count(), least);
}
inline std::int64_t seconds_for(const Claim& claim) {
  return seconds_for(claim.ttl + claim.lock_delay);
}

// Whether a lease of this many seconds lasts as long as the claim requires.
inline bool covers(std::int64_t seconds, const Claim& claim) {
  return seconds >= seconds_for(claim);
}

class DayLease {
 public:
  // `calls` must outlive this.
  DayLease(EtcdCalls& calls, std::string name_space);

  // The lease of today, which may not exist yet.
  std::int64_t id() const;

  // Creates it if it does not exist.
  asio::awaitable<void> set_up(Call call);

 private:
  EtcdCalls& calls_;
  std::string name_space_;
};

// Calls `on_news` when the key is changed or deleted after `revision`. Uses a separate
// connection to the members of `calls`. Failures are ignored: the next renewal finds the
// same change.
std::unique_ptr<LeaseNews> news_of(const EtcdCalls& calls, std::string key,
                                   std::int64_t revision, std::function<void()> on_news);

}  // namespace dlock::etcd
