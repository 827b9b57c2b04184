// The scripts of a server as one side of a history.
//
// Translates their replies into the words of the rules. Ignores what the rules do not
// promise: which waiters watch, for how long a waiter can sleep, and how the runs and the
// last fence are stored.
#pragma once

#include <string>
#include <vector>

#include "tests/contract/clocked_scripts.hpp"
#include "tests/contract/history_step.hpp"

namespace dlock::against {

// The ids of the scripts that take part.
struct Loaded {
  std::string ask, release, renew, set_lease, take_away, remove_expired, inspect, history,
      reclaim, save, go_back;
};

// Loads the scripts, with a replacement in the text of one or all of them. Throws
// std::runtime_error if none of them contains the text to replace.
Loaded load_scripts(ClockedServer& server, const Replacement& replaced = {});

// A lock on a server.
class ScriptsSide {
 public:
  ScriptsSide(const Loaded& scripts, std::string name)
      : scripts_(scripts), lock_{"dlock", std::move(name)} {}

  // The command for a step.
  redis::Command command(const Step& step, const Contender& contender) const;

  // What the reply shows. Throws std::runtime_error if it is invalid.
  Seen seen(const redis::Reply& reply, const Step& step) const;

 private:
  const Loaded& scripts_;
  LockName lock_;
};

}  // namespace dlock::against
