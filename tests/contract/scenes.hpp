// Scenes: tests of a line or two, which are played on each kind of store.
//
//   a newcomer does not overtake a waiter:
//     a takes; b queues 1; a leaves; c is_busy
//
// A step is: who, an action with its options in parentheses, and what has to come of it.
// Whoever is named for the first time is a new process with a claim on the lock `job`,
// which options behind the name change: `b(shared) queues 1`. `soon` before a step
// repeats it until that comes. An expectation is one word for the answer, or
// `fact=value`, `fact>number` and the like; a fact alone is true, with `!` false. A fence
// is that of whoever was granted it last: `fence=a`.
// `took`: since the step before began.
//
// Actions (scenes.cpp has them all):
//   asks, joins       the answer: granted, busy, nested, differs, deduplicated,
//   superseded takes, gets       these, and it is granted; `again`: it is the same grant
//   as before is_busy, queues 1 these, and it is busy (in this place of the queue)
//   asks_last         the same for the last time; is_refused: and it is busy
//   acquires          asks until it has an answer other than busy, for(20s) or once
//   waits, waited     the beginning and the end of that
//   sleeps, wakes     the beginning and the end of the wait for a turn
//   leaves, ends      releases; with the end of a run: ends(code=3, lost=broken)
//   renews            the answer: confirmed, unless another one is said
//   foresees          the answer that a look at the lock gives, or none
//   runs              takes and ends as often as this: a runs(25, code=3)
//   keeps, hears      keeps the lease; what it was told of it: none, broken, gone or
//   again rests             does not keep it any more anew              another client
//   goes on with its claim: a anew(ttl=1s) starts, dies      its command is recorded; its
//   process is killed breaks, forces    breaks the leases of these: x breaks(a, b)
//   found=2 admits, puts      a fence, a value: disk admits(7) admitted
// `lock`, `last` and `success`, `holder` and `history` look at the lock, its last run,
// its first holder and its latest run; `server forgets`, `stalls` and `goes_on`, `pause
// 20ms`, and `only expiring`, which ends the scene where leases do not expire.
#pragma once

#include <string>
#include <vector>

#include "tests/contract/worlds.hpp"

namespace dlock {

// Registers the scenes of the text as tests of this suite: with
// `scenes/SUITE.a_title/KIND` as name.
bool add_scenes(const std::string& suite, const std::vector<Kind>& on, const char* text,
                int line = __builtin_LINE(), const char* file = __builtin_FILE());

}  // namespace dlock
