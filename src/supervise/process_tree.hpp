// Finds and ends every process that descends from this one.
#pragma once

#include <sys/types.h>

#include <set>

#include "supervise/kill_tree.hpp"
#include "supervise/process_scan.hpp"
#include "supervise/signal_tree.hpp"

namespace dlock {

// The command's processes. A shell that ran dlock with exec may have left it children of
// its own; these are excluded as strangers. An orphan of a stranger becomes our child,
// and cannot be distinguished from an orphan of the command.
class ProcessTree {
 public:
  // Makes orphaned descendants our children, so that none escapes, and records the
  // children that exist already. Create it before the command is started.
  ProcessTree();
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;

  // Ensures that all of them can be found later, even without free descriptors or after a
  // mount. Throws Failure (misconfigured: orphans do not become our children, or /proc
  // does not show them; exhausted).
  void require_visibility();

  // Kills every process of the tree that one scan finds: see kill_tree(). Returns how
  // many we have no permission to kill.
  int kill(const TreeRoot& root) { return kill_tree(scan_, root, had_strangers_); }

  // Sends a signal to each once and to all of them: see signal_tree().
  void send(int signal, const TreeRoot& root, Clock::time_point until) {
    signal_tree(scan_, signal, root, until);
  }

  // Whether no process of the tree lives. Reaps dead children, except `keep`, whose pid
  // must not be reused.
  bool is_empty(pid_t keep) { return scan_.is_empty(keep); }

  // Reaps dead children until it meets `keep`, which it does not reap; true if `keep` is
  // dead. Costs two system calls if no other child has died.
  bool reap_until(pid_t keep);

 private:
  int orphans_error_ = 0;  // why orphans do not become our children; 0: they do
  std::set<pid_t> strangers_;
  bool had_strangers_ = false;  // even if they are gone, their descendants may not be
  ProcessScan scan_{&strangers_};
};

}  // namespace dlock
