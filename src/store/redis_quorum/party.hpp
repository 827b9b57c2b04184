// Who a holder or a run is, for comparing what several servers report.
#pragma once

#include <string>
#include <tuple>

#include "lock/lease.hpp"

namespace dlock::redis_quorum {

// Fence, host and pid. A fence alone does not tell: counters that stand alike give the
// same to several clients whose clocks are behind them.
using Party = std::tuple<Fence, std::string, pid_t>;

// A foreign holder has no fence, and is one and the same on all servers.
inline Party party_of(const HolderInfo& holder) {
  if (holder.foreign) return {};
  return {holder.fence, holder.host, holder.pid};
}

// The pid of a run is not known.
inline Party party_of(const RunInfo& run) { return {run.fence, run.host, 0}; }

}  // namespace dlock::redis_quorum
