// How runs of this user on this machine ended that their stores could not be told,
// because the outage that ended a run outlasted its dlock.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "lock/lease.hpp"

namespace dlock {

// Notes the end of a run of `lock` in the store with this URL. If it cannot be noted, the
// run has vanished, as for other machines.
void note_missed_end(const std::string& store, const LockName& lock, const RunInfo& run);

// What is noted of the runs in the store with this URL. It is read when it is needed.
class MissedEnds {
 public:
  explicit MissedEnds(std::string store) : store_(std::move(store)) {}

  // If the store knows no end of the run, but this machine does, fills it in.
  void complete(const LockName& lock, RunInfo& run);

 private:
  void read();

  std::string store_;
  std::optional<std::string> log_;
};

}  // namespace dlock
