/* A lease that its server has forgotten, and whether it may be set up again: a server that is
 * replaced by its standby, which is behind, or that loses its data, and the clock of which then
 * shows another time; leases that are deleted; requests that arrive late. Nothing else of a run.
 * README.md says how to read and check it.
 */
#ifndef CLAIMS
#define CLAIMS 3
#endif
#ifndef FAULTS
#define FAULTS 3
#endif
#define LATEST 2      /* what a clock can show */
#define NOBODY CLAIMS

mtype:phase = { comes, holds, over };

/* The server, and its standby: the last grant, and whose the lease is. */
byte fence, claim = NOBODY, holder = NOBODY;
byte s_fence, s_claim = NOBODY, s_holder = NOBODY;
byte clock;

/* The claims. */
mtype:phase phase[CLAIMS] = comes;
byte own[CLAIMS];                           /* the fence of the grant that its command relies on */
byte before[CLAIMS], claim_before[CLAIMS];  /* the grant before it */

mtype:promise = { P12_no_lease_is_set_up_again_after_another_grant };
bool granted_since[CLAIMS];        /* another claim */
bool is_known = true;              /* no server has lost the record of such a grant */
byte faults = FAULTS;
byte i;                            /* scratch */

inline must(promise, condition) {
  if
  :: condition
  :: else -> printf("BROKEN: %e\n", promise); assert(false)
  fi
}

/* What was granted after a first loss can be lost by a second one: then no server knows. */
inline forget() {
  for (i : 0 .. CLAIMS - 1) { is_known = is_known && !(phase[i] == holds && granted_since[i]) }
  i = 0
}

/* src/rules/granting.cpp, grant_to; shared/granting.lua */
#define NEXT_FENCE (clock > fence -> clock : fence + 1)
inline grant(c) {
  fence = NEXT_FENCE; claim = c; holder = c;
  for (i : 0 .. CLAIMS - 1) { granted_since[i] = granted_since[i] || (phase[i] == holds && i != c) }
  i = 0;
  printf("the lock is granted to claim %d with fence %d\n", c, fence)
}

/* src/rules/keeping.cpp, was_granted_since; the script reclaim */
#ifdef FENCES_COMPARED
#define WAS_GRANTED_SINCE(c) (fence > own[c])
#else
#ifdef FENCE_ALONE
#define IS(f, k) (fence == f)
#else
#ifdef CLAIM_ALONE
#define IS(f, k) (claim == k)
#else
#define IS(f, k) (fence == f && claim == k)
#endif
#endif
#define WAS_GRANTED_SINCE(c) \
  (fence > 0 && !IS(own[c], c) && !(claim_before[c] != NOBODY && IS(before[c], claim_before[c])))
#endif

proctype Claim(byte c) {
end:
  do
  :: d_step { phase[c] == comes && holder == NOBODY ->
       before[c] = fence; claim_before[c] = claim;
       grant(c);
       own[c] = fence; granted_since[c] = false; phase[c] = holds }
  :: d_step { phase[c] == holds && !(holder == c && fence == own[c]) ->
       if
       :: holder == NOBODY && !WAS_GRANTED_SINCE(c) ->
          printf("the lease of claim %d is set up again\n", c);
          must(P12_no_lease_is_set_up_again_after_another_grant, !granted_since[c] || !is_known);
          holder = c; fence = (own[c] > fence -> own[c] : fence); claim = c
       :: else -> phase[c] = over; printf("claim %d has lost its lease\n", c)
       fi }
  :: d_step { phase[c] == holds && holder == c && fence == own[c] ->
       phase[c] = over; holder = NOBODY; printf("claim %d is released\n", c) }
  /* In another microsecond than the first. */
  :: d_step { phase[c] == holds && holder == NOBODY && faults > 0 && NEXT_FENCE != own[c] ->
       faults--; printf("FAULT: a late request of claim %d is executed\n", c); grant(c) }
  od
}

proctype Server() {
  byte shown;
end:
  do
  :: d_step { clock < LATEST -> clock++ }
  :: d_step { s_fence != fence || s_claim != claim || s_holder != holder ->
       s_fence = fence; s_claim = claim; s_holder = holder }
  :: d_step { holder != NOBODY && faults > 0 ->
       faults--; holder = NOBODY; printf("FAULT: the lease is deleted, or ends\n") }
  :: atomic { faults > 0 ->
       faults--;
       select (shown : 0 .. LATEST);
       d_step {
         clock = shown; shown = 0; forget();
         fence = s_fence; claim = s_claim; holder = s_holder;
         printf("FAULT: the standby becomes the primary, and its clock shows %d\n", clock) } }
  :: atomic { faults > 0 ->
       faults--;
       select (shown : 0 .. LATEST);
       d_step {
         clock = shown; shown = 0; forget();
         fence = 0; claim = NOBODY; holder = NOBODY; s_fence = 0; s_claim = NOBODY; s_holder = NOBODY;
         printf("FAULT: the data are lost, and the clock shows %d\n", clock) } }
  od
}

init { atomic { run Server(); for (i : 0 .. CLAIMS - 1) { run Claim(i) } i = 0 } }
