// Finds processes without allocating memory: for the guardian, whose work must not depend
// on how much of anything is left.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <set>

#include "util/fd.hpp"

namespace dlock {

struct ScannedProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  std::int64_t started = 0;       // in ticks since boot
  unsigned long long caught = 0;  // as in StatFields
  bool is_ours = false;           // it descends from this process
  // What is caught by those between this process and it.
  unsigned long long caught_above = 0;
};

// One at a time: what is found stands in static memory.
class ProcessScan {
 public:
  // Without `strangers`, children that are there for other reasons than the command, and
  // what is below them.
  explicit ProcessScan(const std::set<pid_t>* strangers = nullptr)
      : strangers_(strangers) {}

  // Opens what children() needs, once and for all.
  void open();

  struct Children {
    const pid_t* first = nullptr;
    std::size_t count = 0;
    bool is_all = true;  // else there are more
  };
  // The children of this process, dead ones too. Needs no descriptor but its own, unless
  // the kernel lists no children: then it looks through /proc.
  Children children();

  struct Processes {
    ScannedProcess* first = nullptr;
    std::size_t count = 0;
  };
  // All living processes that can be seen, with `is_ours` set; none if /proc cannot be
  // read.
  Processes all();

 private:
  bool is_stranger(pid_t pid) const;

  const std::set<pid_t>* strangers_;
  Fd children_;
};

// Whether /proc shows a living process of this number.
bool is_shown(pid_t pid);

// Sends `signal` to a process that was found, and never to a later one of the same
// number. 0, or an errno.
int signal_scanned(const ScannedProcess& process, int signal);

}  // namespace dlock
