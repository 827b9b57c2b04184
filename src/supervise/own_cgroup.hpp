// A control group for the command alone, where we have permission to create one.
#pragma once

#include <sys/types.h>

#include <string>

#include "util/fd.hpp"

namespace dlock {

// It is created below the cgroup of this process, if that is delegated to us (a systemd
// unit with Delegate=yes) or we are root. All processes in it can be killed in one step,
// whoever their parents are and however fast they fork. It enables no controllers, so
// that nothing changes for processes outside.
class OwnCgroup {
 public:
  OwnCgroup() = default;  // empty

  // Creates one if that is possible and useful; otherwise the result is empty. Removes
  // empty ones beside it whose makers no longer exist.
  static OwnCgroup create() noexcept;

  // The one that the process `maker` created; empty if there is none.
  static OwnCgroup of(pid_t maker) noexcept;

  bool exists() const { return !path_.empty(); }

  // For a child that is to be created in it (CLONE_INTO_CGROUP); -1 if this is empty.
  int directory() const { return directory_.get(); }

  // The rest allocates no memory, and does nothing if this is empty.

  void kill_all() const;  // sends KILL to all processes in it

  // Moves remaining processes to the cgroup that this process was in at creation, and
  // removes this one. False if it cannot be removed.
  bool remove() const;

 private:
  // Empty unless `is_there` confirms its path, or if memory is exhausted.
  template <typename Check>
  static OwnCgroup at_path_of(pid_t maker, Check is_there) noexcept;

  void empty_out() const;

  std::string path_;
  std::string outer_processes_;
  Fd directory_;
  Fd kill_;
};

}  // namespace dlock
