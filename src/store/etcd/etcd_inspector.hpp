// Looks at the locks in an etcd cluster.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <map>
#include <memory>
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

// `calls` must outlive the inspector.
std::unique_ptr<LockInspector> inspector_of(EtcdCalls& calls);

}  // namespace dlock::etcd
