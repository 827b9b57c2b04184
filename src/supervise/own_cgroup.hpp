// A control group of the command's own, where somebody lets us make one.
#pragma once

#include <sys/types.h>

#include <string>

#include "util/fd.hpp"

namespace dlock {

// Below the cgroup that this process is in, if that is delegated to us (a systemd unit
// with Delegate=yes) or we are root: what is in there can be killed in one step, whoever
// its parents are and however fast it starts others. It has no controllers, so that
// nothing changes for who stays outside. Elsewhere nothing is made.
class OwnCgroup {
 public:
  OwnCgroup() = default;  // empty

  // Makes one, if that is possible and of use; else it is empty.
  static OwnCgroup made() noexcept;

  // The one that the process `maker` has made; empty if there is none.
  static OwnCgroup of(pid_t maker) noexcept;

  bool exists() const { return !path_.empty(); }

  // For a child that is to be born there; -1 if it is empty.
  int directory() const { return directory_.get(); }

  // The rest needs no memory, and does nothing if it is empty.

  void kill_all() const;  // sends KILL to all that are in there

  // Who is still in there goes to where this process was when it made it. False if it
  // cannot be removed all the same.
  bool remove() const;

 private:
  // Empty unless `is_there` says of its path that it is; also where there is no memory.
  template <typename Check>
  static OwnCgroup at_path_of(pid_t maker, Check is_there) noexcept;

  void empty_out() const;

  std::string path_;
  std::string outer_processes_;
  Fd directory_;
  Fd kill_;
};

}  // namespace dlock
