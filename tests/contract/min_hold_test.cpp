// What every store does with locks that --min-hold keeps after their runs.

#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

[[maybe_unused]] const bool min_hold_scenes = add_scenes("MinHold", every_kind(), R"(
a run shorter than min_hold leaves the lock held:
  a(min_hold=1h) takes; a ends released; a dies; b is_busy
a failed run leaves the lock held too:
  a(min_hold=1h) takes; a ends(code=124, outcome=timeout); b is_busy
a run longer than min_hold leaves the lock free:
  a(min_hold=20ms) takes; pause 30ms; a ends; b takes
a grant released before its command started is not kept:
  a(min_hold=1h) takes; a leaves; b takes
the run is recorded as ended at once:
  a(min_hold=1h) takes; a ends; a dies; last ran fence=a ended
the end of min_hold is not recorded as a vanished run:
  a(min_hold=50ms) takes; a ends; a dies; soon b takes; last ran
the lock is shown as held by an ended run and for how long:
  a(min_hold=1h) takes; a ends; a dies; lock holders=1
  ; holder fence=a ended !attached expires_in>3500s expires_in<=1h
a busy answer says that the run has ended:
  a(min_hold=1h) takes; a ends; a dies; b is_busy holders=1 ended
a holder whose run is in progress is not shown as ended:
  a(min_hold=1h) takes; lock holders=1; holder !ended attached
a repeated release finds that it is done:
  a(min_hold=1h) takes; a ends; a ends not_ours; lock holders=1
the lock is not taken again even by its former holder:
  a(min_hold=1h) takes; a ends; a is_busy
a process that the run left behind can wait for the lock:
  a(min_hold=1h) takes; a ends; b(inside=a) queues 1
an ended run deduplicates others at once:
  a(min_hold=1h) takes; a ends; a dies; b(retry=1h) asks deduplicated fence=a
a lock kept by min_hold is not a run in progress:
  a(min_hold=1h) takes; a ends; a dies; soon b(dedupe=1ms) is_busy
only the slot of the run is kept:
  a(min_hold=1h, slots=2) takes; a ends; a dies; b(slots=2) takes slot=1; c(slots=2) is_busy
a slot that was kept is granted again:
  a(slots=2) takes; b(slots=2, min_hold=100ms) takes; b ends; b dies; soon c(slots=2) takes slot=1
a readers lock is kept among readers:
  a(shared, min_hold=1h) takes; a ends; a dies; b(shared) takes; c is_busy
the lock is free that long after its grant:
  a(min_hold=300ms) takes; a ends; a dies; b waits; b waited granted took>100ms; lock holders=1
the first waiter gets the lock at that moment:
  a(min_hold=700ms) takes; b waits; a ends; a dies; b waited granted took>200ms
)");

}  // namespace
}  // namespace dlock
