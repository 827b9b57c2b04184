// Finds processes without allocating memory, for the guardian, which has to work when
// memory is exhausted.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <set>

#include "util/fd.hpp"
#include "util/process.hpp"

namespace dlock {

struct ScannedProcess : StatFields {
  pid_t pid = 0;
  std::int64_t parent_started = 0;  // as started_ticks; set if is_ours
  bool is_ours = false;             // it descends from this process
  // Signals that processes between this process and that one catch or block.
  unsigned long long handled_above = 0;
};

// Sorts the processes by pid, and sets `is_ours` of those that descend from `root` and
// not from one of its children in `strangers`, which may be null. Returns false if the
// parent of a process is missing, because it has ended since that process was read. The
// process may be a descendant; the next scan shows its new parent.
bool mark_descendants(ScannedProcess* all, std::size_t count, pid_t root,
                      const std::set<pid_t>* strangers);

// Use one at a time: results are in static memory.
class ProcessScan {
 public:
  // Excludes `strangers`, children that do not belong to the command, and their
  // descendants.
  explicit ProcessScan(const std::set<pid_t>* strangers = nullptr)
      : strangers_(strangers) {}

  // Opens /proc once, so that a later mount over it changes nothing; otherwise the first
  // scan does. False if /proc does not show this process under its own pid, because it is
  // not mounted or belongs to another PID namespace (errno is 0), or if it cannot be
  // opened (errno says why).
  bool open();

  struct Children {
    const pid_t* first = nullptr;
    std::size_t count = 0;
    bool is_all = true;  // false: there are more
  };
  // The children of this process, including dead ones, newest last. Opens no descriptor,
  // unless the kernel does not list children: then it scans /proc.
  Children children();

  // Reaps all children that have ended except `keep`; true if no other child is left.
  bool is_empty(pid_t keep);

  struct Processes {
    ScannedProcess* first = nullptr;
    std::size_t count = 0;
    bool is_complete = true;  // false: see mark_descendants()
  };
  // All living processes that are visible, with `is_ours` set; none if /proc cannot be
  // read.
  Processes all();

  // Whether /proc shows a living process with this pid.
  bool is_shown(pid_t pid) const;

  // Sends `signal` to a process that all() reported as ours; never to a later process
  // that reuses its pid or its parent's. Returns 0 or an errno.
  int send(const ScannedProcess& process, int signal) const;

 private:
  bool is_stranger(pid_t pid) const;

  const std::set<pid_t>* strangers_;
  bool is_open_ = false;
  Fd proc_;
  Fd children_;
};

// The state of our child with this pid, as waitid(2) reports it; `none`: not our child.
enum class ChildState { none, ended, stopped, lives };
ChildState state_of_child(pid_t pid);

}  // namespace dlock
