// What a claim brings along where several independent servers are asked for one lock.
#pragma once

#include <cstdint>

#include "lock/lease.hpp"

namespace dlock::redis {

struct Ballot {
  // Whatever the server's clock says, this is the fence of a grant, unless the server has
  // granted one as great before; then the next.
  Fence fence;
  // Whether a lease that the claim has there already is raised to it.
  bool raises = false;
  // Whether the lease is known to hold with exactly this fence, and is only missing here.
  bool is_repair = false;
  // The order in line, alike on all servers; 0: by the server's clock.
  std::int64_t ticket = 0;
};

}  // namespace dlock::redis
