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
  std::int64_t started = 0;         // in ticks since boot
  unsigned long long caught = 0;    // as in StatFields
  std::int64_t parent_started = 0;  // as `started`; of one that is ours
  bool is_ours = false;             // it descends from this process
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

  // Opens what the others need, once and for all: what is mounted over /proc later
  // changes nothing. False if /proc does not show this process under its own number,
  // because it is missing or another PID namespace's; errno is then 0, or says why
  // nothing can be opened. Who does not call it has it done by the first look.
  bool open();

  struct Children {
    const pid_t* first = nullptr;
    std::size_t count = 0;
    bool is_all = true;  // else there are more
  };
  // The children of this process, dead ones too, the newest last. Needs no descriptor but
  // its own, unless the kernel lists no children: then it looks through /proc.
  Children children();

  // Reaps the children that have ended, but for `keep`; whether no other is left.
  bool is_empty(pid_t keep);

  struct Processes {
    ScannedProcess* first = nullptr;
    std::size_t count = 0;
  };
  // All living processes that can be seen, with `is_ours` set; none if /proc cannot be
  // read.
  Processes all();

  // Whether /proc shows a living process of this number.
  bool is_shown(pid_t pid) const;

  // Sends `signal` to a process that all() found to be ours, and never to a later one of
  // the same number, nor to a child of one that has the number of its parent. 0, or an
  // errno.
  int send(const ScannedProcess& process, int signal) const;

 private:
  bool is_stranger(pid_t pid) const;

  const std::set<pid_t>* strangers_;
  bool is_open_ = false;
  Fd proc_;
  Fd children_;
};

// What the kernel says of a number, by its own account of whose child it is.
enum class ChildState { none, ended, stopped, lives };
ChildState state_of_child(pid_t pid);

}  // namespace dlock
