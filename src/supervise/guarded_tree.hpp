// The command and its descendants, as the guardian starts, signals, kills and reaps them.
#pragma once

#include <sys/types.h>

#include <atomic>

#include "supervise/own_cgroup.hpp"
#include "supervise/process_scan.hpp"
#include "supervise/signal_tree.hpp"
#include "util/clock.hpp"

namespace dlock {

// Allocates nothing after prepare(). The command stays unreaped until finish() or drop(),
// so that its pid and its process group are not reused.
class GuardedTree {
 public:
  // `own_group`: whether the command leads a process group of its own.
  explicit GuardedTree(bool own_group) : own_group_(own_group) {}

  // Opens /proc, and creates a cgroup if possible. `has_cgroup` is true while there may
  // be one. Returns 0 or an errno: then the descendants cannot be found.
  int prepare(std::atomic<bool>& has_cgroup);

  // Forks the process of the command, and stores its pid in `*pid` before it runs.
  // Returns as fork(2) does; the child then has to enter the cgroup `to_enter`, unless
  // that is -1.
  pid_t fork_command(pid_t* pid, int& to_enter);

  pid_t command() const { return command_; }

  // Kills and reaps a process that has not become the command; nothing if there is none.
  void drop();

  // Reaps orphans that have ended; true if the command has ended.
  bool reap_until_command();

  // Whether all processes but the command are gone.
  bool is_empty() { return scan_.is_empty(command_); }

  // As the function of that name does.
  void forward(int signal) const { dlock::forward(signal, {command_, own_group_}); }

  // Sends a signal to every process that is not in `told_group`, as signal_tree() does,
  // until `until` at the latest.
  void signal_all(int signal, Clock::time_point until, pid_t told_group = 0);

  struct Survivors {
    int refused = 0;     // how many we have no permission to kill
    bool stuck = false;  // others were killed report_stuck_after ago and are not gone
  };
  // Kills every process once. Repeat it until they are gone.
  Survivors kill_all(Clock::time_point now);

  // Kills what is in the cgroup, also processes that do not descend from the command.
  void kill_cgroup() const { cgroup_.kill_all(); }

  // Removes the cgroup, and moves processes that are left in it to the caller's.
  void remove_cgroup(std::atomic<bool>& has_cgroup);

 private:
  bool own_group_;
  pid_t command_ = 0;
  ProcessScan scan_;
  OwnCgroup cgroup_;
  Clock::time_point kills_since_ = Clock::time_point::max();
};

}  // namespace dlock
