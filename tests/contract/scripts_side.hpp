// The scripts of a server as one side of a history.
//
// What they say in other words than the rules is put into theirs here. What they do
// beyond the rules' promises, and is not looked at: whom they tell to watch, for how long
// a waiter can sleep, and how the runs and the last fence are kept.
#pragma once

#include <string>
#include <vector>

#include "tests/contract/clocked_scripts.hpp"
#include "tests/contract/history_step.hpp"

namespace dlock::against {

// The scripts that take part, as they are known to a server.
struct Loaded {
  std::string ask, release, renew, set_lease, take_away, remove_expired, inspect, history;
};

// Loads them, one of them or all with a replacement in their texts. Throws
// std::runtime_error if that is found in none of them.
Loaded load_scripts(ClockedServer& server, const Replacement& replaced = {});

// One lock on a server.
class ScriptsSide {
 public:
  ScriptsSide(const Loaded& scripts, std::string name)
      : scripts_(scripts), lock_{"dlock", std::move(name)} {}

  // What to send for a step.
  redis::Command command(const Step& step, const Contender& contender) const;

  // What the answer to that shows. Throws std::runtime_error if it is none.
  Seen seen(const redis::Reply& reply, const Step& step) const;

 private:
  const Loaded& scripts_;
  LockName lock_;
};

}  // namespace dlock::against
