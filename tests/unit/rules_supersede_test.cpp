// The rules of claims that supersede or replace others, or do not join a long queue, and
// of leases that are broken.

#include "tests/unit/rules_scenes.hpp"

namespace dlock::rules {
namespace {

[[maybe_unused]] const bool supersede_scenes = add_rules_scenes("SupersedeRules", R"(
dead waiters do not count towards max queue:
  1 takes; 2 queues 1; 2 dies; 3(max=1) queues 1
a dead waiter is not counted as superseded:
  1 takes; 2 queues 1; 3(supersedes) queues 2; 3 dies; 4(supersedes) queues 2; lock superseded=0
the new first waiter is woken to watch the holder:
  1 takes; 2(supersedes) queues 1; 3 queues 2; 4(supersedes) queues 2 woken=2,3
a superseded waiter is forgotten once it is dead:
  1 takes; 2(supersedes) queues 1; 3(supersedes) queues 1 answered=1; 2 dies; 4 is_busy answered=0
a waiter that was passed over is superseded by a grant:
  1 takes; 2(supersedes) queues 1; 3 queues 2; 2 stops; 1 leaves; 3 leaves waiters=2 promised=
  ; 4(supersedes) gets; 2 continues; 2 joins superseded
a replacing waiter that is passed over takes no lock from anyone:
  1 takes; 2(replaces) queues 1; 3 queues 2; 2 stops; 1 leaves; 3 gets !broken
a replacing waiter that continues takes the lock from its holder:
  1 takes; 2(replaces) queues 1; 3 queues 2; 2 stops; 1 leaves; 3 gets; 2 continues; 2 joins busy
  ; lock held_by=3 broken
a dead replacing waiter takes no lock from anyone:
  1 takes; 2 queues 1; 3(replaces) queues 2; 3 dies; 1 leaves; 2 gets !broken
)");

[[maybe_unused]] const bool break_scenes = add_rules_scenes("BreakRules", R"(
a holder learns who was the first to break its lease:
  1 takes; 8 breaks(1) found=1; 9 breaks(1) found=1; lock broken taken_by=web8
by force a holder is removed and its run recorded as lost:
  1 takes; 2 queues 1; pass 7s
  ; 9 forces(1) holders=0 wake=2 vanished=lost vanished_of=1 lasted=7000
  reason=broken_by_force_by_33@web9; lock counts=none
a dead holder is removed and not broken:
  1 takes; 2 queues 1; 1 dies; 9 breaks(1) found=0 holders=0 wake=2
)");

}  // namespace
}  // namespace dlock::rules
