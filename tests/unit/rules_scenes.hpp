// Plays scenes (tests/contract/scenes.hpp) with the granting rules alone, where the clock
// stands still. Contenders are numbers, which are their sessions as well. Every step
// tells who is woken
// (`woken`: in order), removed as dead or promised the lock, who waits, and whether
// nothing has changed: `1 leaves wake=2,3 promised=2`, `2 asks unchanged`. `promise` and
// `ends_in` are the rests of the first promise and of the lease of the first holder.
//
// Actions: asks, joins, takes, gets, is_busy, queues 1, leaves, ends(code=3),
// renews(60s), dies, stops, continues, parks(60s), starts (its command is recorded) and
// watches. `pass 3s` and `pass 3s-1ns` let time pass, `pass(boot) 2h` and `pass(wall)
// -24h` by one of the clocks; `lock` tells what is shown, and whether it is out of use.
#pragma once

#include <string>

namespace dlock::rules {

bool add_rules_scenes(const std::string& suite, const char* text,
                      int line = __builtin_LINE(), const char* file = __builtin_FILE());

}  // namespace dlock::rules
