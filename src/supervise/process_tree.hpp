// Every process that descends from this one: found, and ended.
#pragma once

#include <sys/types.h>

#include <set>

#include "supervise/kill_tree.hpp"
#include "supervise/process_scan.hpp"
#include "supervise/tell_tree.hpp"

namespace dlock {

// What descends from this process because of the command. A shell that ran exec for
// dlock may have left it children of its own; they are strangers to all of this.
class ProcessTree {
 public:
  // Makes orphaned descendants our children, so that none can get away, and notes the
  // children that are there already. Before the command is started.
  ProcessTree();
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;

  // Whether orphans do become our children.
  bool catches_orphans() const { return catches_orphans_; }

  // Opens what it takes to find all of them later, whatever happens then to descriptors
  // and mounts. Throws Failure (misconfigured: /proc does not show them; exhausted).
  void must_be_seen();

  // Kills every process of the tree that a look at it finds: see kill_tree(). How many
  // may not be killed by us.
  int kill(const TreeRoot& root) { return kill_tree(scan_, root); }

  // Sends a signal to each once and to all of them: see tell_tree().
  void tell(int signal, const TreeRoot& root, Clock::time_point until) {
    tell_tree(scan_, signal, root, until);
  }

  // Whether no process of the tree lives. Reaps dead children on the way, but never
  // `keep`, whose number has to stay taken.
  bool is_empty(pid_t keep) { return scan_.is_empty(keep); }

  // Reaps children that died, up to and excluding `keep`; whether `keep` is dead. Costs
  // two system calls where nothing else died.
  bool reap_until(pid_t keep);

 private:
  bool catches_orphans_ = false;
  std::set<pid_t> strangers_;
  ProcessScan scan_{&strangers_};
};

}  // namespace dlock
