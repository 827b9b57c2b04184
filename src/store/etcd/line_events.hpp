// What has happened to a lock between two revisions, as events for those who watch.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lock/event.hpp"
#include "store/etcd/line.hpp"

namespace dlock::etcd {

// What one revision did besides the entries of a lock.
struct Aside {
  std::vector<PastRun> ended;          // runs that were recorded as over
  std::set<std::string> closed;        // ids of entries whose grants were given back
  std::map<std::string, Taker> taken;  // from holders of these ids, who were not told
};

// In their order; `now` is by the clock of this host, and when they are told.
std::vector<dlock::Event> events_between(const Line& before, const Line& after,
                                         const Aside& aside, const LockName& lock,
                                         WallTime now);

}  // namespace dlock::etcd
