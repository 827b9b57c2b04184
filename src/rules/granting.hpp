// The rules of granting, as plain functions on the state of one lock.
//
// They are those of every store. Nothing here reads a clock, a file or a process: moments
// and lives come in as arguments, whom to wake goes out as a value.
#pragma once

#include <optional>
#include <vector>

#include "lock/store.hpp"
#include "rules/lives.hpp"
#include "rules/state.hpp"

namespace dlock::rules {

// A claim with what only the store's side of it knows.
struct Ask {
  const Claim& claim;
  const Party& party;
  Queue queue = Queue::stay_out;
};

// Grants, or says why not; see Store::ask. Dead holders are cleared first, promises
// of the dead and the late lapse, and a free lock is promised to the first waiters
// that fit, past stopped ones, before the claim is looked at.
Answer ask(State& state, const Ask& ask, Moment now, const Lives& lives,
           Consequences& consequences);

// Takes `token` out of holders and waiters and promises what became free. If it held,
// `end` becomes the last run.
Release release(State& state, const Token& token, const std::optional<RunEnd>& end,
                Moment now, const Lives& lives, Consequences& consequences);

// Takes in how a run of `holder` has ended, who does not hold any more.
void note_lost(State& state, const Holder& holder, const RunEnd& end, Moment now);

// Sets the lease of the holder `token` to `ttl` from now; see Store::renew. A lease that
// its processes keep alive stays as it is.
Renewal renew(State& state, const Token& token, milliseconds ttl, Moment now,
              const Lives& lives, Consequences& consequences);

// Clears holders that are gone, and promises what became free.
void tidy(State& state, Moment now, const Lives& lives, Consequences& consequences);

// Notes the command of the holder `token`; nothing if it does not hold.
void note_command(State& state, const Token& token, const CommandProcess& command);

}  // namespace dlock::rules
