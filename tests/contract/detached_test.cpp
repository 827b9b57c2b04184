// What lock/store.hpp promises about detached leases and fence registers, in every store.

#include "tests/contract/scenes.hpp"

namespace dlock {
namespace {

[[maybe_unused]] const bool detached_scenes =
    add_scenes("DetachedContract", every_kind(), R"(
# How long a detached lease lasts.
a detached lease excludes others:
  a(detached) takes; b is_busy; c(detached) is_busy
a detached lease outlives the process that acquired it:
  a(detached) takes; a dies; b is_busy
a detached lease expires at its ttl:
  a(detached, ttl=300ms) takes; b is_busy; soon lock holders=0; b takes
a waiter for a detached lease has a place in the queue:
  a takes; b(detached) queues 1; c queues 2; a leaves; b takes; holder !attached
as many detached leases are granted as there are slots:
  a(detached, slots=2) takes; b(detached, slots=2) takes slot=1; c(detached, slots=2) is_busy
a slot whose detached lease expired is granted again:
  a(detached, slots=2) takes; b(detached, slots=2, ttl=200ms) takes; soon c(detached, slots=2) takes
  ; d(detached, slots=2) is_busy

# What is shown of it.
a detached lease shows when it expires:
  a(detached, ttl=30s) takes; holder !attached expires_in>25s expires_in<=30s
a detached lease shows the process that it was acquired for:
  a(detached, pid=4711) takes; holder pid=4711
an expired detached lease was not a run:
  a(detached, ttl=100ms) takes; soon lock holders=0; last none; b takes; last none
a detached lease does not deduplicate a run:
  a(detached, ttl=300ms) takes; b(dedupe=1h) is_busy; soon lock holders=0; b takes
the fence after a detached lease is greater:
  a(detached, ttl=100ms) takes; soon lock holders=0; b takes fence>a

# Renewals.
any client with the token can renew a detached lease:
  a(detached, ttl=500ms) takes; a dies; b(like=a) renews(ttl=30s); holder expires_in>25s
a renewal counts from now even if that shortens the lease:
  a(detached, ttl=1000s) takes; a renews(ttl=30s); holder expires_in<=30s
a waiter is notified that a lease ends sooner:
  a(detached, ttl=1000s) takes; b waits; a renews(ttl=200ms); b waited granted
one of many slots is renewed on its own:
  a(detached, slots=2) takes; b(detached, slots=2, ttl=400ms) takes; a renews(ttl=60s)
  ; soon lock holders=1; b renews gone; holder expires_in>50s
detached leases of readers are renewed and released one by one:
  a(detached, shared, ttl=30s) takes; b(detached, shared, ttl=60s) takes; a renews(ttl=100s); lock holders=2
  ; a leaves released; lock holders=1; holder fence=b expires_in<=60s; b leaves released; c takes
an expired lease is not renewed:
  a(detached, ttl=100ms) takes; soon lock holders=0; a renews gone; b takes
an expired lease is not renewed while another claim holds the lock:
  a(detached, ttl=100ms) takes; soon lock holders=0; b(detached, ttl=30s) takes
  ; a renews(ttl=1000s) taken_over; holder fence=b expires_in<=30s
a lease that was never granted is not renewed:
  a(detached) renews gone; lock holders=0
a waiter cannot renew:
  a takes; b(detached) queues 1; b renews !confirmed
a waiter that was promised the lock cannot renew:
  a takes; b(detached) queues 1; a leaves; b renews !confirmed; b takes
a lease that vanished is not renewed:
  a(detached) takes; server forgets; a renews gone

# Releases.
any client with the token can release a detached lease:
  a(detached) takes; a dies; b(like=a) leaves released; c takes
a release by token hands the lock to the first waiter:
  a(detached) takes; b queues 1; c queues 2; b sleeps; d(like=a) leaves released; b wakes; b takes
a released detached lease was not a run:
  a(detached) takes; a leaves released; last none
a release with another token frees nothing:
  a(detached) takes; b(detached) leaves not_ours; c is_busy
an expired lease is not released while another claim holds the lock:
  a(detached, ttl=100ms) takes; soon lock holders=0; b takes; a leaves not_ours; holder fence=b
an expired lease is not released:
  a(detached, ttl=100ms) takes; soon lock holders=0; a leaves not_ours
a release in an unused store frees nothing:
  a(detached) leaves not_ours

# Fences that a resource has seen.
a resource admits its first fence:
  disk(name=disk) admits(7) admitted
a resource admits a greater fence and the same again:
  disk(name=disk) admits(7) admitted; disk admits(8) admitted; disk admits(8) admitted; disk admits(10) admitted
a resource does not admit a smaller fence:
  disk(name=disk) admits(10) admitted; disk admits(9) stale; disk admits(10) admitted
the greatest fences are distinguished to the last digit:
  disk(name=disk) admits(9223372036854775806) admitted; disk admits(9223372036854775807) admitted
  ; disk admits(9223372036854775806) stale
resources are independent of each other:
  disk(name=disk) admits(10) admitted; other(name=disk2) admits(1) admitted; short(name=di) admits(1) admitted
  ; elsewhere(name=disk, space=other) admits(1) admitted; disk admits(9) stale
a resource is independent of a lock with the same name:
  a takes; r admits(1) admitted; a leaves; lock holders=0; r admits(1) admitted
resources are not listed as locks:
  disk(name=disk) admits(1) admitted; list names=
the deadline of a detached lease is not after its end:
  a(detached, ttl=30s) takes lasts>25s lasts<=30s
a repeated claim gets its full ttl again:
  a(detached, ttl=800ms) takes; a anew(ttl=30s); a takes again; holder expires_in>20s
a waiter is granted the lock when a detached lease expires:
  a(detached, ttl=300ms) takes; a dies; b(detached) acquires(for=9s) granted took<4s
a lock kept by min_hold can be neither renewed nor released:
  a(min_hold=1m) takes; a ends; b(detached, tokenless) renews !confirmed; b leaves not_ours; c is_busy
a store that does not answer is unreachable:
  a(hurries, detached) takes; server stalls; a renews unreachable; a leaves unreachable; a admits(1) unreachable
a renewal can keep the ttl that the lease was acquired with:
  a(detached, ttl=100s) takes; b(like=a) renews(ttl=30s); c(like=a, ttl=30s, keeps_ttl) renews confirmed ttl=100000
  ; holder expires_in>90s
)");

}  // namespace
}  // namespace dlock
