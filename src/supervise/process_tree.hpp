// Every process that descends from this one: found, and ended.
#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

#include "supervise/tell_tree.hpp"
#include "util/process.hpp"

namespace dlock {

// Living processes below `root`, parents before children; without `strangers` and what
// is below them. Pure.
std::vector<ProcessInfo> descendants(pid_t root, const std::vector<ProcessInfo>& all,
                                     const std::set<pid_t>& strangers = {});

// What became of a signal that was sent to many.
struct Sweep {
  int signalled = 0;
  int refused = 0;  // no permission: somebody else's processes, by sudo or setuid
};

// What descends from this process because of the command. A shell that ran exec for
// dlock may have left it children of its own; they are strangers to all of this.
class ProcessTree {
 public:
  // Makes orphaned descendants our children, so that none can get away, and notes the
  // children that are there already. Before the command is started.
  ProcessTree();

  // Whether orphans do become our children.
  bool catches_orphans() const { return catches_orphans_; }

  // Sends `signal` to every living process of the tree that a look at it finds. A process
  // that ended meanwhile is not mistaken for a later one of the same number.
  Sweep send(int signal) const;

  // The same, but to each once and to all of them: see tell_tree().
  void tell(int signal, const TreeRoot& root, Clock::time_point until) const;

  // Whether no process of the tree lives. Reaps dead children on the way, but never
  // `keep`, whose number has to stay taken.
  bool is_empty(pid_t keep);

  // Reaps children that died, up to and excluding `keep`; whether `keep` is dead. Costs
  // two system calls where nothing else died.
  bool reap_until(pid_t keep);

 private:
  bool catches_orphans_ = false;
  std::set<pid_t> strangers_;
};

}  // namespace dlock
