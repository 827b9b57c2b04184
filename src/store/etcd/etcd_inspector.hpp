// Looks at the locks in an etcd cluster.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lock/store.hpp"
#include "store/etcd/etcd_calls.hpp"
#include "store/etcd/etcd_queue.hpp"

namespace dlock::etcd {

struct NameSpace {
  std::int64_t revision = 0;
  std::map<std::string, LockSnapshot> snapshots;  // by the names of the locks
};

// Reads them page by page. Throws Failure as EtcdCalls.
asio::awaitable<NameSpace> read_name_space(EtcdCalls& calls, std::string name_space,
                                           Call call);

// From all keys of the namespace; keys that belong to no lock are skipped.
std::map<std::string, LockSnapshot> snapshots_from(const std::vector<KeyValue>& pairs,
                                                   const std::string& name_space,
                                                   std::int64_t revision);

class EtcdInspector final : public LockInspector {
 public:
  // `calls` must outlive this.
  explicit EtcdInspector(EtcdCalls& calls) : calls_(calls) {}

  asio::awaitable<LockInfo> inspect(const LockName& lock, Wakeup& wakeup) override;
  asio::awaitable<LockInfo> inspect_for_sure(const LockName& lock,
                                             Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockInfo>> list(const std::string& name_space,
                                              NameFilter matches,
                                              Wakeup& wakeup) override;
  asio::awaitable<std::vector<RunInfo>> history(const LockName& lock,
                                                Wakeup& wakeup) override;
  asio::awaitable<std::vector<LockHistory>> histories(const std::string& name_space,
                                                      NameFilter matches,
                                                      Wakeup& wakeup) override;
  asio::awaitable<void> watch(const Watched& watched, EventSink& sink,
                              Wakeup& wakeup) override;

 private:
  asio::awaitable<LockInfo> info_from(LockName lock, TxnRequest look, Wakeup& wakeup);
  asio::awaitable<void> fill_ends(std::vector<LockInfo>& locks,
                                  const std::vector<LockSnapshot>& snapshots, Call call);

  EtcdCalls& calls_;
};

}  // namespace dlock::etcd
