// A control group of the command's own, where somebody lets us make one.
#pragma once

#include <string>

#include "util/fd.hpp"

namespace dlock {

// Below the cgroup that this process is in, if that is delegated to us (a systemd unit
// with Delegate=yes): what is in there can be killed in one step, whoever its parents
// are. Elsewhere nothing is made, for it would get into the way of whoever manages the
// groups.
class OwnCgroup {
 public:
  // Makes it, if that is wanted and possible; else it stays empty.
  OwnCgroup();
  ~OwnCgroup() { remove(); }
  OwnCgroup(const OwnCgroup&) = delete;
  OwnCgroup& operator=(const OwnCgroup&) = delete;

  // The rest needs no memory and no new descriptors, and does nothing if it is empty.

  void enter() const;     // moves this process there
  void kill_all() const;  // sends KILL to all that are in there
  void remove() const;    // unless somebody is still in there

 private:
  std::string path_;
  Fd processes_;
  Fd kill_;
};

}  // namespace dlock
