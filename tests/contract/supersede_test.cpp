// What every store does for --supersede, --replace and --max-queue.

#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

[[maybe_unused]] const bool supersede_scenes = add_scenes("Supersede", every_kind(), R"(
# max_queue
a claim does not queue behind max_queue waiters:
  a takes; b queues 1; c(max=1) queues 0 queued=1; lock waiters=1
a claim that waits does not count itself:
  a takes; b(max=1) queues 1; c queues 2; b queues 1
a claim with a max_queue of zero is granted a free lock:
  a(max=0) gets
the wait ends at once behind max_queue waiters:
  a takes; b queues 1; c(max=1) acquires busy

# supersedes
a newer waiter supersedes an older one:
  a takes; b(supersedes) queues 1; c(supersedes) queues 1; b joins superseded here; lock waiters=1
a superseded waiter remains superseded however often it asks:
  a takes; b(supersedes) queues 1; c(supersedes) queues 1
  ; b joins superseded; b joins superseded; b asks superseded; c queues 1
only waiters that supersede are superseded:
  a(supersedes) takes; b queues 1; c(supersedes) queues 2; b queues 1; a renews
a claim that does not wait supersedes no one:
  a takes; b(supersedes) queues 1; c(supersedes) is_busy; b queues 1
a claim that finds the queue too long supersedes no one:
  a takes; b queues 1; c(supersedes) queues 2; d(supersedes, max=1) queues 0; c queues 2
# A floor of the fence: the release promises the lock to it and does not grant it at once.
a waiter that was promised the lock can still be superseded:
  a takes; b(supersedes, floor=1) queues 1; a ends; c(supersedes) gets; b joins superseded
the promised lock then goes to the next waiter:
  a takes; b(supersedes, floor=1) queues 1; c queues 2; a ends; d(supersedes) queues 2
  ; b joins superseded; c gets
a waiter that is superseded does not count for max_queue:
  a takes; b(supersedes) queues 1; c(supersedes, max=1) queues 1
a superseded waiter does not return when the newer one leaves:
  a takes; b(supersedes) queues 1; c(supersedes) queues 1; c leaves; b joins superseded; lock waiters=0
a reader that supersedes a writer joins the readers:
  a(shared) takes; b(supersedes) queues 1; c(supersedes, shared) gets
a superseded waiter is woken:
  a takes; b(supersedes) waits; c(supersedes) queues 1; b waited superseded took<900ms
a release by a superseded waiter changes nothing:
  a takes; b(supersedes) queues 1; c(supersedes) queues 1; b leaves; c queues 1

# replaces
a replacing waiter breaks the lease of the holder:
  a takes; b(replaces) queues 1 holders=1 broken; a renews broken taken replaced
a replaced holder keeps the lock until it releases it:
  a takes; b(replaces) queues 1; b queues 1; a ends(lost=broken) released; b gets
a replacing claim that does not wait breaks nothing:
  a takes; b(replaces) is_busy; a renews
a waiter before a replacing one gets a grant that is already broken:
  a takes; b queues 1; c(replaces) queues 2; a leaves; b gets broken taken replaced; b renews broken
  ; b leaves; c gets
a repeated request finds the grant still broken:
  a takes; b queues 1; c(replaces) queues 2; a leaves; b gets broken; b takes again broken
the first of two replacing waiters gets a grant that is already broken:
  a takes; b(replaces) queues 1; c(replaces) queues 2; a leaves; b gets broken; b leaves; c gets
a waiter that replaces can be superseded:
  a takes; b(supersedes, replaces) queues 1; c(supersedes, replaces) queues 1; a ends(lost=broken)
  ; b joins superseded; c gets
a run that never begins counts for no one:
  a(shared) takes; b queues 1; c(replaces) queues 2; d(dedupe=1h) queues 3; a leaves; b gets broken
  ; d joins busy
a replacing waiter that left the queue breaks no grant:
  a takes; b queues 1; c(replaces) queues 2; c leaves; a leaves; b gets
a detached lease is freed at once:
  a(detached, ttl=1h) takes; b(replaces) gets; a renews !confirmed
a detached lease granted before a replacing waiter is freed:
  a takes; b(detached, ttl=1h) queues 1; c(replaces) queues 2; a leaves; b gets; c acquires granted
a lock kept by min_hold is freed at once:
  a(min_hold=1h) takes; a ends; b(replaces) gets
an outer run is not replaced:
  a takes; b(replaces, inside=a) joins nested fence=a; a renews
all shared holders are replaced:
  a(shared) takes; b(shared) takes; c(replaces) queues 1; a renews broken; b renews broken
all holders of slots are replaced:
  a(slots=2) takes; b(slots=2) takes; c(replaces, slots=2) queues 1; a renews broken; b renews broken
a replacing claim that is granted a free slot breaks nothing:
  a(slots=2) takes; b(replaces, slots=2) gets; a renews
a replacing waiter that can take a free slot breaks no grant:
  a(slots=2) takes; b(slots=2) takes; c(replaces, slots=2) queues 1; a leaves; b leaves; d(slots=2) takes
)");

// Keys of the lock and places in the queue.
[[maybe_unused]] const bool server_scenes =
    add_scenes("SupersedeOnServer", {kinds[2]}, R"(
another program that holds the lock loses it:
  server runs(SET dlock:{job} another NX PX 60000); a(replaces) gets
# As after a stop of more than PLACE_MS: the record under its token has expired.
a waiter whose record was deleted is still superseded:
  a takes; b(supersedes) queues 1; c(supersedes) queues 1; server runs(DEL dlock:{job}:d:%b)
  ; b joins superseded; c queues 1
a newer waiter supersedes an older one in a deleted queue:
  a takes; b(supersedes) queues 1; server runs(DEL dlock:{job}:q dlock:{job}:w dlock:{job}:s)
  ; c(supersedes) queues; server runs(DEL dlock:{job}:q dlock:{job}:w); b joins superseded
a waiter whose place was deleted gets it again in a long queue:
  a takes; b(max=1) queues 1; server runs(DEL dlock:{job}:q dlock:{job}:w); c queues; b queues 1
)");

}  // namespace
}  // namespace dlock
