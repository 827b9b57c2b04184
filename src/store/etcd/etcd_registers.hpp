// Fence registers in an etcd cluster.
#pragma once

#include "lock/fence_registers.hpp"
#include "store/etcd/calls.hpp"

namespace dlock::etcd {

class EtcdRegisters final : public FenceRegisters {
 public:
  // `calls` must outlive this.
  explicit EtcdRegisters(Calls& calls) : calls_(calls) {}

  asio::awaitable<Admission> admit_fence(const LockName& resource, Fence fence,
                                         Wakeup& wakeup) override;

 private:
  Calls& calls_;
};

}  // namespace dlock::etcd
