// The counts of refused and superseded claims in every store.

#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

[[maybe_unused]] const bool counts_scenes = add_scenes("Counts", every_kind(), R"(
are zero at first:
  lock refused=0; a takes; lock refused=0 superseded=0
include a last request that is refused:
  a takes; b is_refused; c is_refused; lock refused=2; a leaves; d asks_last granted; lock refused=2
omit a claim that will ask again:
  a takes; b is_busy; c queues 1; lock refused=0
do not make a refused claim a waiter:
  a takes; b is_refused place=0 queued=0
omit a promised claim that is granted the lock at the end of its wait:
  a takes; b queues 1; a leaves; b asks_last granted; lock refused=0
include a claim that does not wait once:
  a takes; b acquires(once) busy; lock refused=1
include a claim whose wait is over once:
  a takes; b acquires(for=30ms) busy; b leaves; lock refused=1
include a claim that found the queue too long once:
  a takes; b queues 1; c(max=1) acquires busy; c leaves; lock refused=1
omit a waiter that was granted the lock:
  a takes; b waits; a leaves; b waited granted; lock refused=0
omit a waiter that was told to stop:
  a takes; b waits; b stops; b waited interrupted; b leaves; lock refused=0
omit a skipped run:
  a takes; b(dedupe=1m) acquires(once) deduplicated; lock refused=0 superseded=0
omit a claim inside the run that holds the lock:
  a takes; b(inside=a) acquires(once) nested; lock refused=0
include a detached claim:
  a takes; b(detached) acquires(once) busy; lock refused=1
are separate for each lock:
  a(name=other) takes; b(name=other) is_refused; lock refused=0
outlive the run:
  a takes; b is_refused; a ends; lock refused=1
include a superseded waiter once:
  a takes; b(supersedes) queues 1; c(supersedes) queues 1; b joins superseded; b asks_last superseded
  ; b leaves; lock superseded=1 refused=0
include each superseded waiter:
  a takes; b(supersedes) queues 1; c(supersedes) queues 1; d(supersedes) queues 1; e(supersedes) queues 1
  ; lock superseded=3
omit a waiter that was not superseded:
  a takes; b queues 1; c(supersedes) queues 2; lock superseded=0
)");

}  // namespace
}  // namespace dlock
