// The lease time to request from etcd, which counts in whole seconds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lock/lease.hpp"

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

}  // namespace dlock::etcd
