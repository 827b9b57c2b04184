// A control group of the command's own, where somebody lets us make one.
#pragma once

#include <sys/types.h>

#include <string>

#include "util/fd.hpp"

namespace dlock {

// Below the cgroup that this process is in, if that is delegated to us (a systemd unit
// with Delegate=yes): what is in there can be killed in one step, whoever its parents
// are. Elsewhere nothing is made, for it would get into the way of whoever manages the
// groups.
class OwnCgroup {
 public:
  OwnCgroup() = default;  // empty

  // Makes one, if that is wanted and possible; else it is empty.
  static OwnCgroup made() noexcept;

  // The one that the process `maker` has made; empty if there is none.
  static OwnCgroup of(pid_t maker) noexcept;

  bool exists() const { return !path_.empty(); }

  // The rest needs no memory and no new descriptors, and does nothing if it is empty.

  void enter() const;     // moves this process there
  void kill_all() const;  // sends KILL to all that are in there
  bool remove() const;    // unless somebody is still in there: false

 private:
  // Empty unless `is_there` says of its path that it is; also where there is no memory.
  template <typename Check>
  static OwnCgroup at_path_of(pid_t maker, Check is_there) noexcept;

  std::string path_;
  Fd processes_;
  Fd kill_;
};

}  // namespace dlock
