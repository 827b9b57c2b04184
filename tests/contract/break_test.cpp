// What every store does when a lease is broken.

#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

[[maybe_unused]] const bool break_scenes = add_scenes("Breaking", every_kind(), R"(
the broken holders are returned as they were before:
  a(label=nightly) takes; x breaks(a) found=1 fence=a label=nightly here !broken !gone
the lock stays held until it is released:
  a takes; x breaks(a); b is_busy; lock holders=1; holder broken; a ends(code=76, lost=broken) released
  ; lock holders=0
the release hands the lock to the first waiter:
  a takes; b queues 1; x breaks(a); b queues 1; a ends(code=76, lost=broken); b gets
a holder that asks again gets the same grant and is still broken:
  a takes; x breaks(a); a asks granted fence=a; holder fence=a broken
other fences break nothing:
  x breaks(7) found=0; a takes; x breaks(7, 0) found=0; holder !broken
all shared holders can lose the lock at once:
  a(shared) takes; b(shared) takes; x breaks(a, b) found=2
a broken lock is not kept by min_hold:
  a(min_hold=1h) takes; x breaks(a); a ends(code=76, lost=broken); lock holders=0
a lock kept by min_hold is free at once:
  a(min_hold=1h) takes; a ends(code=76, lost=broken); b is_busy; x breaks(a) found=1; b takes
a lock kept by min_hold goes to the first waiter:
  a(min_hold=1h) takes; a ends(code=76, lost=broken); b queues 1; x breaks(a); c is_busy; b gets
a run whose lock was freed by force is recorded as lost:
  only expiring; a takes; x forces(a); last lost forced; a ends(code=76, outcome=lost) broken
  ; a ends(code=76, lost=unconfirmed) not_ours; last code=76 forced
a broken lease is freed by force:
  only expiring; a takes; x breaks(a); x forces(a); b takes
# As at the end of a run, a holder does not keep its lease any more and releases it.
the holder is notified that its lease is broken:
  a takes; a keeps; x breaks(a); soon a hears broken; a rests; a ends(code=76, lost=broken)
a holder of more than a second is notified within half a second:
  a takes; a keeps; pause 1300ms; x breaks(a); soon a hears broken; a hears took<500ms; a rests
a holder is notified of a break before it began to keep its lease:
  a takes; x breaks(a); a keeps; soon a hears broken; a rests; a ends(code=76, lost=broken)
of several holders only those with the given fences lose the lock:
  a(shared) takes; a keeps; b(shared) takes; b keeps; x breaks(a) found=1 fence=a; soon a hears broken
  ; b hears none; a rests; a ends(code=76, lost=broken); lock holders=1; b rests
a second break finds the same holder and does not notify it again:
  a takes; a keeps; x breaks(a); soon a hears broken; x breaks(a) found=1 broken; a hears broken times=1; a rests
the next grant is not broken:
  a takes; x breaks(a); a ends(code=76, lost=broken); b takes; b keeps; holder !broken; b rests; b hears none
a lease that is freed by force is handed off at once:
  only expiring; a takes; a keeps; b queues 1; x forces(a) found=1 fence=a; b gets fence>a; soon a hears broken
  ; a rests; a ends(code=76, lost=broken) !released; lock holders=1
)");

}  // namespace
}  // namespace dlock
