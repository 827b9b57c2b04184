// Reads the locks in an etcd cluster.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lock/inspector.hpp"
#include "store/etcd/calls.hpp"
#include "store/etcd/etcd_queue.hpp"

namespace dlock::etcd {

class EtcdInspector final : public LockInspector {
 public:
  // `calls` must outlive this.
  explicit EtcdInspector(Calls& calls) : calls_(calls) {}

  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<LockInfo> inspect_for_sure(const LockName& lock,
                                             Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockHistory>> histories(
      const std::string& name_space, std::function<bool(const std::string&)> matches,
      Wakeup& wakeup) override;
  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override;

 private:
  asio::awaitable<LockInfo> info_from(LockName lock, TxnRequest look, Wakeup& wakeup);
  asio::awaitable<void> fill_ends(std::vector<LockInfo>& locks,
                                  const std::vector<LockSnapshot>& snapshots,
                                  Clock::time_point until, Wakeup& wakeup);

  Calls& calls_;
};

}  // namespace dlock::etcd
