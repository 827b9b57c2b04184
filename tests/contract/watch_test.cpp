// The events that every store reports to those who watch its locks.

#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

// A service that lives within one process has no other to tell.
[[maybe_unused]] const bool watch_scenes =
    add_scenes("Watching", kinds_with(&Kind::is_shared_by_processes, &Kind::watches), R"(
a grant and the end of its run are reported:
  watcher begins; a(label=a) takes; soon watcher sees events=granted/a/0 fence=a here code=none
  ; a ends(code=3); soon watcher sees events=granted/a/0,released/a/1 fence=a here code=3 in_order
a waiter is reported as queued and then as granted:
  a(label=a) takes; watcher begins; b(label=b) queues 1; a leaves; b takes
  ; soon watcher sees events=queued/b/0,released/a/1,granted/b/0
a waiter that gives up has left:
  a(label=a) takes; watcher begins; b(label=b) queues 1; b leaves; soon watcher sees events=queued/b/0,left/b/0
a waiter that is deduplicated has left:
  a(label=a) takes; watcher begins; b(label=b, retry=1h) queues 1; a ends; b joins deduplicated
  ; soon watcher sees events=queued/b/0,released/a/1,left/b/1
a waiter that is superseded has left:
  a(label=a) takes; b(label=b, supersedes) queues 1; watcher begins; c(label=c, supersedes) queues 1
  ; soon watcher sees sorted=left/b/0,queued/c/0
an event has the number of free slots after it:
  watcher begins; a(label=a, slots=3) takes; b(label=b, slots=3) takes; a leaves; b leaves
  ; soon watcher sees events=granted/a/2,granted/b/1,released/a/2,released/b/3
a lock is not free until the last reader has released it:
  watcher begins; a(label=a, shared) takes; b(label=b, shared) takes; a leaves; b leaves
  ; soon watcher sees events=granted/a/0,granted/b/0,released/a/0,released/b/1
a detached lease is reported as expired though no one asks:
  a(label=old, detached, ttl=1500ms) takes; watcher begins; soon watcher sees events=expired/old/1
  ; b(label=new, detached, ttl=300ms) takes
  ; soon watcher sees events=expired/old/1,granted/new/0,expired/new/1
a renewed lease is reported as released and not as expired:
  watcher begins; a(label=a, detached, ttl=1000ms) takes; a renews(ttl=1h)
  ; b(label=b, name=other, detached, ttl=1200ms) takes
  ; soon watcher sees events=granted/a/0,granted/b/0,expired/b/1; a leaves released
  ; soon watcher sees events=granted/a/0,granted/b/0,expired/b/1,released/a/1
a run whose process has exited is reported as expired:
  watcher begins; a(label=a, ttl=500ms) takes; a starts; a dies; soon watcher sees events=granted/a/0,expired/a/1
a broken lease is reported once and then as released:
  a(label=a) takes; watcher begins; x breaks(a); x breaks(a); soon watcher sees events=broken/a/0 taken
  ; a ends(code=76, lost=broken); soon watcher sees events=broken/a/0,released/a/1 outcome=lost
a broken detached lease is free at once:
  a(label=a, detached, ttl=1h) takes; watcher begins; x breaks(a); soon watcher sees events=broken/a/1
a lock kept by min_hold is reported as released when that is over:
  watcher begins; a(label=a, min_hold=1500ms) takes; a ends; b is_busy; watcher sees events=granted/a/0
  ; soon watcher sees events=granted/a/0,released/a/1
only the named locks of the namespace are watched:
  watcher begins(one, two words); a(label=a, name=other) takes; b(label=b, name=one, space=elsewhere) takes
  ; c(label=c, name=one) takes; d(label=d, name=two words) takes
  ; soon watcher sees events=granted/c/0,granted/d/0
)");

}  // namespace
}  // namespace dlock
