// Registers of fences in an etcd cluster.
#pragma once

#include "lock/fence_registers.hpp"
#include "store/etcd/calls.hpp"

namespace dlock::etcd {

class EtcdRegisters final : public FenceRegisters {
 public:
  // `calls` has to be there for longer.
  explicit EtcdRegisters(Calls& calls) : calls_(calls) {}

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;

 private:
  Calls& calls_;
};

}  // namespace dlock::etcd
