// A claim on a lock in an etcd cluster.
#pragma once

#include <memory>

#include "lock/claimant.hpp"
#include "store/etcd/etcd_calls.hpp"

namespace dlock::etcd {

// It decides as etcd_queue.hpp says, and writes the transactions of etcd_steps.hpp: here
// is their order, and what becomes of the lease. `calls` must outlive it.
std::unique_ptr<Claimant> claimant_of(EtcdCalls& calls, const Claim& claim);

}  // namespace dlock::etcd
