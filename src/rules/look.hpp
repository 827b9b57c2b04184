// What the state of a lock shows.
#pragma once

#include <optional>

#include "lock/store.hpp"
#include "rules/lives.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// The state as `status` shows it: without the dead, who are left where they are.
LockInfo info_of(const State& state, const LockName& lock, Moment now,
                 const Lives& lives);
HolderInfo info_of(const Holder& holder, Moment now);
Taker taker_of(const TakenBy& taken_by);  // the user is the number of the account

// Whether there are holders that are gone, but not cleared yet.
bool is_untidy(const State& state, Moment now, const Lives& lives);

// Why the lease that `token` was granted is lost; nothing if it holds.
std::optional<Loss> loss_of(const State& state, const Token& token);

// Whether nothing about this lock is worth keeping any more. Nobody may ever come to
// clear the dead.
bool is_out_of_use(const State& state, Moment now, const Lives& lives);

}  // namespace dlock::rules
