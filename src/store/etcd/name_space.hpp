// All locks of a namespace at one revision.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "store/etcd/calls.hpp"
#include "store/etcd/etcd_queue.hpp"

namespace dlock::etcd {

struct NameSpace {
  std::int64_t revision = 0;
  std::map<std::string, LockSnapshot> snapshots;  // by the names of the locks
};

// Reads them page by page. Throws Failure as Calls.
asio::awaitable<NameSpace> read_name_space(Calls& calls, std::string name_space,
                                           Clock::time_point until, Wakeup& wakeup);

// From all keys of the namespace; keys that belong to no lock are skipped.
std::map<std::string, LockSnapshot> snapshots_from(const std::vector<KeyValue>& pairs,
                                                   const std::string& name_space,
                                                   std::int64_t revision);

}  // namespace dlock::etcd
