// Leases and places that the clock of the store ends.

#include "tests/unit/rules_scenes.hpp"

namespace dlock::rules {
namespace {

[[maybe_unused]] const bool keeping_scenes = add_rules_scenes("LockByClock", R"(
a lease ends its ttl and lock delay after its grant or renewal:
  1(delay=5s) takes; pass 34s; 1 renews confirmed; pass 34s; lock shown_holders=1 ends_in=1000
  ; pass 1s; lock shown_holders=0; 1 renews gone
a waiter is dead when it has not asked for the time of a place:
  1(ttl=1000s) takes; 2 queues 1; pass 89s; 2 queues 1; pass 2s; lock shown_waiters=1
  ; pass 90s; lock shown_waiters=0
the first waiter asks again when the lease ends:
  1 takes; 2 queues 1; pass 29800ms; 2 watches asks_in=200
a run that did not renew its lease is recorded as vanished:
  1 takes; pass 30s; 2 takes vanished=vanished vanished_of=1
a lease is taken over if the lock was granted since:
  1 takes; pass 30s; 2 takes; 1 renews taken_over; 2 ends; 1 renews taken_over
# The waiter knows only when the lease would have ended before.
a detached lease that is to end sooner wakes the first waiter:
  1(detached) takes; 2 queues 1; 1 renews(31s) wake=; 1 renews(5s) wake=2
a lost run may leave its lease until that ends:
  1 takes; pass 10s; 1 ends(lost=unconfirmed, leaves_lease) left vanished=lost
  ; lock run_ended ends_in=20000; 2 is_busy; pass 20s; 2 takes
a holder from which the lock was taken by force learns that:
  1(reclaim) takes; 9 forces(1); 1 renews broken taker=web9; 1 ends broken
a clock that was set back makes nothing last longer:
  1 takes; 2 queues 1; pass -1h; lock limits ends_in=30000 place_ends_in<=20m
a usual clock changes nothing:
  1 takes; 2 queues 1; pass 1s; lock limits unchanged

# A lease that has vanished is restored for a claim that wants that.
a vanished lease is restored for a claim that wants that:
  1 takes; server forgets; 1 renews gone; 1(reclaim) renews reclaimed; lock held_by=1 last_grant=1
a lease that has run out is restored and its run has not vanished:
  1 takes; pass 30s; lock tidies runs=1; 1(reclaim) renews reclaimed runs=0; lock last=none
a lease is not restored after another grant:
  1 takes; pass 30s; 2 takes; 2 ends; 1(reclaim) renews taken_over
# A server that took over without the lease, and the clock of which is behind.
a lease is not restored after another grant with a smaller fence:
  1 takes; server forgets; pass -20s; 2 takes fence<1; 2 ends; 1(reclaim) renews taken_over
# Both are the next after the last fence, because both clocks are behind that.
a lease is not restored after another grant with the same fence:
  3 takes; 3 ends; server copies; pass -20s; 1 takes; server returns; 2 takes fence=1
  ; 1 ends taken_over; 2 ends; 1(reclaim) renews taken_over
a lease is restored where the last grant is the one before it:
  3 takes; 3 ends; server copies; 1 takes fence>3; server returns; 1(reclaim) renews reclaimed
  ; 1 renews confirmed
a lease is not restored where an unknown grant is the last:
  4 takes; 4 ends; server copies; 3 takes; 3 ends; 1 takes; server returns
  ; 1(reclaim) renews taken_over
a lease of a claim that was granted the lock again by a late request is not restored:
  1 takes; pass 30s; 2 takes; 2 ends; 1 takes(late); pass 30s; 1(reclaim) renews taken_over
leases that a server lacks are restored in the order of their grants:
  3(slots=2) takes; 3 ends; server copies; 1(slots=2, reclaim) takes; 2(slots=2, reclaim) takes
  ; server returns; 2 renews taken_over; 1 renews reclaimed; 2 renews reclaimed holders=2
# The other one's slot is free again, but was used beside both.
a lease that ended here is not the one before another lost one:
  1(slots=2, reclaim) takes; server copies; 2(slots=2, reclaim) takes; server returns
  ; 3(slots=2) takes; 3 ends; pass 30s; 1 renews reclaimed; 2 renews taken_over
a lease is not restored while the lock is promised:
  1 takes; 2 queues 1; pass 30s; lock tidies promised=2; 1(reclaim) renews taken_over
leases of several slots are restored in any order:
  1(slots=2, reclaim) takes; 2(slots=2, reclaim) takes; server forgets; 2 renews reclaimed
  ; 1 renews reclaimed holders=2
a lease is not restored into a slot that was granted since:
  1(slots=2, reclaim) takes; 2(slots=2, reclaim) takes; server forgets; 2 renews reclaimed
  ; 3(slots=2) takes; 1 renews taken_over
after a restored lease the next fence is greater:
  pass(wall) 1h; 1(reclaim) takes; pass(wall) -1h; server forgets; 1 renews reclaimed; 1 ends
  ; 2 takes fence>1
)",
                                                              true);

}  // namespace
}  // namespace dlock::rules
