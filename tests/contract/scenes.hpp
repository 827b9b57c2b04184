// Scenes: tests of a line or two, which are played on each kind of store.
//
//   a newcomer does not overtake a waiter:
//     a takes; b queues 1; a leaves; c is_busy
//
// A step is: who, an action with its options in parentheses, and what has to come of it.
// Whoever is named for the first time is a new process with a claim on the lock `job`,
// which options behind the name change: `b(shared) queues 1`. With `hurries` as first
// option its store timeout is short. `soon` before a step repeats it until that comes.
//
// An expectation is one word for the answer, or `fact=value`, `fact>number` and the like;
// a fact alone is true, with `!` false. A fence is that of whoever was granted it last:
// `fence=a`. `took`: since the step before began.
//
// The actions are those of Scene::facts_of_action():
//
//   asks, joins     the answer: granted, busy, nested, differs, deduplicated, superseded
//   takes, gets     these, and it is granted, not broken and with a fence above those of
//                   all grants that were released; `again`: the same grant as before
//   is_busy         asks, and it is busy; queues 1: joins, and has this place
//   asks_last       the same for the last time; is_refused: and it is busy
//   acquires        asks until it has another answer than busy: for(20s), or once
//   waits, waited   the beginning and the end of that
//   sleeps, wakes   the beginning and the end of the wait for a turn
//   leaves, ends    releases; with the end of a run: ends(code=3, lost=broken)
//   renews          the answer: confirmed, unless another one is said
//   foresees        the answer that a look at the lock gives, or none
//   runs            takes and ends as often as this: a runs(25, code=3)
//   keeps, hears    keeps the lease; what it heard: none, broken, gone or again
//   kept            keeps it until its next renewal: confirmed, again, or the loss
//   rests           does not keep it any more
//   anew            another client goes on with its claim: a anew(ttl=1s)
//   starts, dies    its command is recorded; its process is killed
//   breaks, forces  breaks the leases of these: x breaks(a, b) found=2
//   admits          a fence: disk admits(7) admitted
//   puts, reads     a value: a puts(42, ttl=1m) stored; `forgets` deletes it
//   enters          a limit of 2/1h, or of a(rate=5/1m); enters(1h): would wait so long
//   waits_for_turn  at that limit, so long at most; withdraws: gives up its place
//
// `lock`, `last` and `success`, `holder` and `history` look at the lock, its last run,
// its first holder and its latest run (or `history(1)` the one before), `list` at the
// names of all locks, `watcher` at the events since it began; `server forgets`, `stalls`
// and `goes_on`, `server runs(DEL dlock:{job})` on Redis, `pause 20ms`, and `only
// expiring` or `only lasting`, which ends the scene where leases do the other.
#pragma once

#include <string>
#include <vector>

#include "tests/contract/worlds.hpp"

namespace dlock {

// Registers the scenes of the text as tests of this suite, with names such as
// `scenes/SUITE.a_title/KIND`.
bool add_scenes(const std::string& suite, const std::vector<Kind>& on, const char* text,
                int line = __builtin_LINE(), const char* file = __builtin_FILE());

}  // namespace dlock
