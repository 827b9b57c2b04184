// The events of a lock between two revisions, for dlock watch.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lock/event.hpp"
#include "store/etcd/queue_rules.hpp"

namespace dlock::etcd {

// The changes of one revision to the records of runs.
struct RunChanges {
  std::vector<PastRun> ended;          // runs whose end was recorded
  std::set<std::string> closed;        // ids of entries whose grants were released
  std::map<std::string, Taker> taken;  // by ids of holders that were not notified
};

// In order; `now` is by the clock of this host, and becomes the time of the events.
std::vector<dlock::Event> events_between(const LockSnapshot& before,
                                         const LockSnapshot& after,
                                         const RunChanges& aside, const LockName& lock,
                                         WallTime now);

}  // namespace dlock::etcd
