// What a claim sends along when it asks several independent servers for one lock.
#pragma once

#include <cstdint>

#include "lock/lease.hpp"

namespace dlock::redis {

struct Ballot {
  // The fence for a grant, whatever the server's clock says; if the server has granted
  // one at least as great before, the next greater one.
  Fence fence;
  // Whether a lease that the claim already has there is raised to this fence.
  bool raises = false;
  // Whether the lease is known to hold with exactly this fence, and is only missing here.
  bool is_repair = false;
  // The order in the queue, the same on all servers; 0: by the server's clock.
  std::int64_t ticket = 0;
};

}  // namespace dlock::redis
