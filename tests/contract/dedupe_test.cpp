// What every store answers a claim that another run counts as.

#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

[[maybe_unused]] const bool dedupe_scenes = add_scenes("Deduplication", every_kind(), R"(
# Runs in progress.
a run in progress counts:
  a takes; b(dedupe=1h) asks deduplicated fence=a outcome=running here !ended started
a run in progress counts however long ago it started:
  a takes; b(dedupe=1ms) asks deduplicated
a claim with a wait does not wait for a run in progress:
  a takes; b(dedupe=1h) joins deduplicated; lock waiters=0
a run does not count for itself:
  a(dedupe=1h) takes; a takes again
a claim that does not deduplicate is busy:
  a takes; b is_busy
an outer run blocks and does not count:
  a takes; b(inside=a, dedupe=1h) asks nested

# Runs that have ended.
an ended run that started within the window counts:
  a takes; a ends; b(dedupe=1h) asks deduplicated fence=a outcome=ran code=0 lasted=1500 here ended; history runs=1
a run that started before the window does not count:
  a takes; a ends; soon b(dedupe=50ms) takes
a run that deduplicates counts too:
  a(dedupe=1h) takes; a ends; b(dedupe=1h) asks deduplicated
the run that counts is the last one:
  a takes; a ends; b takes; b ends(code=3); c(dedupe=1h) asks deduplicated fence=b
runs of other locks do not count:
  a takes; a ends; b(dedupe=1h, name=other) takes; c(dedupe=1h, space=other) takes
a run that failed counts:
  a takes; a ends(code=3); b(dedupe=1h) asks deduplicated
a run that vanished does not count:
  a(ttl=500ms) takes; a starts; a dies; soon b(dedupe=1h) takes
a run that vanished does not hide the run before it:
  a takes; a ends(code=3); b(ttl=500ms) takes; b starts; b dies; soon c(dedupe=1h) asks deduplicated fence=a
a waiter waits again if the run that it left for vanishes:
  a(shared) takes; b(ttl=500ms) queues 1; c(dedupe=1h) queues 2; a leaves; soon b gets; b starts; b dies
  ; soon lock holders=0; soon c gets

# Grants that are not runs.
a released grant without a command is not a run:
  a takes; a leaves; b(dedupe=1h) takes
a command that could not be started is not a run:
  a takes; a ends(code=125); b(dedupe=1h) takes; b ends(code=126); c(dedupe=1h) takes; c ends(code=127)
  ; d(dedupe=1h) takes
a failed start does not hide the run before it:
  a takes; a ends; b takes; b ends(code=127); c(dedupe=1h) asks deduplicated fence=a
shared grants do not count:
  a(shared) takes; b(dedupe=1h) is_busy; a ends; b takes
grants of slots do not count:
  a(slots=2) takes; b(dedupe=1h) asks differs; a ends; b takes

# Retries.
a failed run does not count with retry failed:
  a takes; a ends(code=3); b(retry=1h) takes
a run that was stopped counts as failed:
  a takes; a ends(signal=TERM); b(retry=1h) takes; b ends(code=124, outcome=timeout); c(retry=1h) takes
  ; c ends(code=76, outcome=lost); d(retry=1h) takes
a run that vanished does not count with retry failed:
  a(ttl=500ms) takes; a starts; a dies; soon b(retry=1h) takes
a success counts with retry failed:
  a takes; a ends; b(retry=1h) asks deduplicated
a success counts even if a later run failed:
  a takes; a ends; b takes; b ends(code=3); c(retry=1h) asks deduplicated fence=a
without a wait a run in progress counts as a success:
  a takes; b(retry=1h) asks deduplicated
with a wait a claim waits for the outcome of the run:
  a takes; b(retry=1h) queues 1
after the wait a run in progress counts as a success:
  a takes; b(retry=1h) queues 1; b asks deduplicated; lock waiters=0

# In the queue.
waiters leave the queue when a run succeeds:
  a takes; b(retry=1h) queues 1; c(retry=1h) queues 2; a ends; lock waiters=0
  ; b joins deduplicated fence=a; c joins deduplicated fence=a
a waiter whose window is over when the run ends takes its turn:
  a takes; b(retry=1ms) queues 1; pause 5ms; a ends; b gets
when a run fails the first waiter runs and its success counts:
  a takes; b(retry=1h) queues 1; c(retry=1h) queues 2; a ends(code=1); b gets; c queues 1; b ends
  ; c joins deduplicated fence=b
when a run vanishes the waiter that retries failed runs runs:
  a(ttl=500ms) takes; a starts; b(retry=1h) queues 1; a dies; soon b gets
waiters that accept any run leave the queue when one starts:
  a(shared) takes; b queues 1; c(dedupe=1h) queues 2; a leaves; b gets; lock waiters=0
  ; c joins deduplicated fence=b
a waiter that does not deduplicate keeps its place:
  a takes; b(retry=1h) queues 1; c queues 2; d(retry=1h) queues 3; a ends; c gets
  ; b joins deduplicated; d joins deduplicated
# There are two before these; only the first two watch the clock.
waiters are woken when a run succeeds:
  a takes; b queues 1; c queues 2; d(retry=1h) queues 3; e(retry=1h) queues 4; d sleeps; e sleeps; a ends
  ; d wakes; e wakes
waiters are woken when a run that counts starts:
  a(shared) takes; b queues 1; c queues 2; d(dedupe=1h) queues 3; a leaves; d sleeps; b takes; d wakes
a dead waiter that had left the queue blocks no one:
  a takes; b(retry=1h) queues 1; c queues 2; a ends; b dies; c gets
a run in progress counts when the wait is over:
  a takes; b(retry=1h) acquires(for=50ms) deduplicated fence=a
a lock held by a reader is busy when the wait is over:
  a(shared) takes; b(retry=1h) acquires(for=50ms) busy; c(dedupe=1h) acquires(for=50ms) busy
a waiter is deduplicated as soon as the run succeeds:
  a takes; b(retry=1h) waits; a ends; b waited deduplicated fence=a

# Waiters that join a run.
waiters that join are deduplicated by the run:
  a takes; b(joins) queues 1; c(joins) queues 2; a ends(shared); b joins deduplicated fence=a
  ; c joins deduplicated fence=a; lock waiters=0
a waiter that joined a run learns how it ended:
  a takes; b(joins) queues 1; a ends(signal=TERM, shared); b joins deduplicated signal=TERM code=none here
a failed run or start is joined too:
  a takes; b(joins) queues 1; a ends(code=3, shared); b joins deduplicated code=3
  ; c takes; d(joins) queues 1; c ends(code=125, shared); d joins deduplicated code=125
  ; e takes; f(joins) queues 1; e ends(code=127, shared); f joins deduplicated code=127
a joining waiter is woken when the run ends:
  a takes; b(joins) queues 1; c(joins) queues 2; d(joins) queues 3; d sleeps !woken; a ends(shared); d wakes
  ; d joins deduplicated
a joining claim counts neither a run in progress nor an earlier one:
  a takes; a ends; b takes; c(joins) is_busy; c queues 1
a run without a shared result is not joined and the first waiter runs:
  a takes; b(joins) queues 1; c(joins) queues 2; a ends; soon b gets; c joins busy
runs of a lock with several slots are not joined:
  a(slots=2) takes; b(slots=2) takes; c(joins, slots=2) queues 1; a ends(shared); c gets
a run that vanished is not joined and the first waiter runs:
  a(ttl=500ms) takes; a starts; b(joins) queues 1; a dies; soon b gets
a waiter that does not join is granted the lock after the run:
  a takes; b(joins) queues 1; c queues 2; a ends(shared); soon c gets; b joins deduplicated
a joining waiter stays in the queue when the next run is granted:
  a takes; b queues 1; c(joins) queues 2; a leaves; soon b gets; c joins busy
a removed waiter learns why even if it asks late:
  a takes; b(retry=1h) queues 1; a ends; b anew(retry=0ms); b joins deduplicated fence=a
  ; b joins deduplicated fence=a
the run that counts can be seen without asking:
  b(dedupe=1h) foresees none; a takes; b foresees deduplicated fence=a
  ; c(retry=1h) foresees deduplicated fence=a; c foresees(joining) none
  ; a ends(code=3); b foresees deduplicated fence=a; c foresees none
  ; d takes; d ends; b foresees deduplicated fence=d; c foresees(joining) deduplicated fence=d
  ; e(shared) takes; b foresees deduplicated fence=d; e ends; b foresees deduplicated fence=d
# Such a window has grown since the waiter queued, which the store does not know.
a window that began at a moment grows while the claim waits:
  a takes; b(retry_since=50ms) queues 1; pause 200ms; a ends; b joins deduplicated fence=a
)");

}  // namespace
}  // namespace dlock
