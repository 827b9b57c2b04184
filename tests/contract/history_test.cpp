// The history of a lock in every store.

#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

[[maybe_unused]] const bool history_scenes = add_scenes("Histories", every_kind(), R"(
an unused lock has no runs:
  history runs=0
a run that a signal ended is listed with the signal:
  a takes; a ends(signal=TERM); history runs=1 signal=TERM code=none
a run in progress is listed as running:
  a takes; history runs=1 running fence=a !ended lasted>-1
a run whose process has exited is listed as vanished before that is recorded:
  a(ttl=500ms) takes; a starts; a dies; soon history vanished runs=1; history fence=a !ended lasted=-1
a vanished run is still listed after the next run:
  a(ttl=500ms) takes; a starts; a dies; soon lock holders=0; b takes; b ends; history runs=2 fence=b ran
  ; history(1) fence=a vanished
the newest run comes first:
  a takes; a ends(code=1); b takes; b ends(code=2); c takes; history runs=3 running; history(1) code=2
  ; history(2) code=1
each lock has its own history:
  a takes; a ends(code=1); b(name=other) takes; b ends(code=2); history runs=1 fence=a
a detached grant is listed as by hand while it is held and afterwards:
  a(detached) takes; history by_hand runs=1 !ended lasted>-1; a leaves released; history by_hand runs=1 ended
a detached grant is not the last run:
  a takes; a ends(code=3); b(detached) takes; b leaves released; last code=3; success none
a broken detached grant is listed:
  a(detached) takes; x breaks(a); history by_hand runs=1 ended
a success of a reader and one in a slot are known:
  a(shared) takes; a ends; success fence=a; b(slots=2) takes; b ends; success fence=b
a run whose lock is kept by min_hold is listed once as ended:
  a(min_hold=1h) takes; a ends; history runs=1 ran
shared runs and runs in slots are listed:
  a(shared) takes; b(shared) takes; history runs=2; a ends(code=1); history runs=2 running; history(1) code=1
  ; b ends(code=2); c(slots=3) takes; c ends(code=3); history runs=3 code=3; history(1) code=2; history(2) code=1
an ended run is listed with its end:
  a takes; a ends(code=3, outcome=timeout)
  ; history runs=1 timeout fence=a code=3 signal=none lasted=1500 here started ended
a run keeps its label and calendar period:
  a(label=nightly, period=day) takes; b(label=next, floor=1) queues 1; lock label=next; history label=nightly
  ; a ends; history label=nightly period=day; b takes; history label=next period=; history(1) label=nightly
a run in progress has its calendar period where leases expire:
  only expiring; a(period=day) takes; history period=day
the last 20 ended runs are kept:
  a runs(25); history runs=20 code=25; history(19) code=6
many detached grants do not push out runs:
  a takes; a ends(code=3); b(detached) runs(25); history runs=11 by_hand; history(10) code=3
the last success is known after more failures than are kept:
  a takes; a ends; b runs(21, code=3); success fence=a; lock known
)");

}  // namespace
}  // namespace dlock
