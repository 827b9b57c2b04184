// Fence registers, which compare fences for resources that cannot do so themselves.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "lock/lease.hpp"
#include "loop/wakeup.hpp"

namespace dlock {

// The answer of a register.
enum class Admission { admitted, stale };

class FenceRegisters {
 public:
  virtual ~FenceRegisters() = default;

  // Admits `fence` for `resource` unless a greater one was admitted before. `resource` is
  // unrelated to a lock of the same name. An admitted fence is never forgotten, as far as
  // the store's data survives a power failure.
  virtual asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                                 Wakeup& wakeup) = 0;
};

}  // namespace dlock
