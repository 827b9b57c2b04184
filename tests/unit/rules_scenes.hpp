// Plays scenes (tests/contract/scenes.hpp) with the granting rules alone, where the clock
// stands still. Contenders are numbers, which are their sessions as well. Every step
// tells who is woken
// (`woken`: in order), removed as dead or promised the lock, who waits, and whether
// nothing has changed: `1 leaves wake=2,3 promised=2`, `2 asks unchanged`. `promise` and
// `ends_in` are the rests of the first promise and of the lease of the first holder.
// `events` are those for `dlock watch`: what happened to whom, and how many slots are
// free then. `vanished` is the first run that is over, `vanished_of` whose it was.
//
// Actions: asks, joins, takes, gets, is_busy, queues 1, leaves, ends(code=3), renews,
// renews(60s), dies, stops, continues, parks(60s), starts (its command is recorded),
// breaks(1), forces(1) and watches. Where the clock ends leases, `takes(late)` does not
// tell the claim of the grant, `server copies` keeps the state, `returns` has that again
// and `forgets` has none; `lock tidies` and `lock limits` do so. `pass 3s` and `pass
// 3s-1ns` let time pass, `pass(boot) 2h` and `pass(wall) -24h` by one of the clocks;
// `lock` tells what is shown, and whether it is out of use.
#pragma once

#include <string>

namespace dlock::rules {

// `by_clock`: the clock ends leases and places, as on a server.
bool add_rules_scenes(const std::string& suite, const char* text, bool by_clock = false,
                      int line = __builtin_LINE(), const char* file = __builtin_FILE());

}  // namespace dlock::rules
