// Identifies a holder or a run across the reports of several servers.
#pragma once

#include <string>
#include <tuple>

#include "lock/lease.hpp"

namespace dlock::redis_quorum {

// Fence, host and pid. A fence alone does not identify a holder: servers with equal
// counters can grant the same fence to different claims.
using Party = std::tuple<Fence, std::string, pid_t>;

// A foreign holder has no fence, and is treated as the same one on all servers.
inline Party party_of(const HolderInfo& holder) {
  if (holder.foreign) return {};
  return {holder.fence, holder.host, holder.pid};
}

// The pid of a run is unknown.
inline Party party_of(const RunInfo& run) { return {run.fence, run.host, 0}; }

}  // namespace dlock::redis_quorum
