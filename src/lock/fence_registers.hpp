// What resources that cannot compare fences themselves ask, as a store may have it.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "lock/lease.hpp"
#include "lock/wakeup.hpp"

namespace dlock {

// What a register says to a fence.
enum class Admission { admitted, stale };

class FenceRegisters {
 public:
  virtual ~FenceRegisters() = default;

  // Admits `fence` for `resource`, which has nothing to do with a lock of that name,
  // unless a greater one was admitted before. What was admitted is never forgotten, as
  // far as the store keeps anything across a power cut.
  virtual asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                                 Wakeup& wakeup) = 0;
};

}  // namespace dlock
