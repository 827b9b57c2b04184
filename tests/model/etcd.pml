/* A claim on etcd across a change of the leader: keep-alives, their confirmation, and leases that a
 * former leader ends.
 *
 * The key of the claim is attached to a lease. Leases are in the log, but how much is left of one is
 * known only to the leader: a keep-alive changes nothing but its memory. A leader that is elected
 * gives all leases their full time. A former leader that has not noticed (it was stopped, or cut off)
 * still answers keep-alives (etcd issue 15247), and when a lease ends by its memory, it has it revoked,
 * although the next leader may have renewed it since. What is written is decided by a majority, so
 * by the current leader. A reply has the term in which its member is when it replies.
 */
#ifndef LEASES
#define LEASES 3      /* that the claim can be granted */
#endif
#define LEASE 3
#define NONE LEASES

mtype:phase = { grants, attaches, holds, asks, over };
mtype:step = { waiting, written, answered };

/* The cluster. */
byte term = 1;
bool unnoticed;                    /* the leader of term 1 does not know that there is another */
bool exists[LEASES];
bool is_known[LEASES];             /* to the leader of term 1 */
byte left_1[LEASES], left_2[LEASES];  /* by the leaders of the two terms */
bool revoking[LEASES];             /* the former leader has asked for it */
byte key_lease = NONE;             /* what the claim's key is attached to; NONE: there is no key */

/* The claim: EtcdClaimant. */
mtype:phase phase = grants;
byte lease = NONE, next_lease;
byte lease_term;                   /* in which it was surely granted; 0: not known */
byte sent;                         /* what is left of a lease that began when the request was sent */
byte deadline;                     /* of the command; 0: none lives */
mtype:step alive = waiting, look = waiting, grant = waiting;
byte alive_term, look_term;
byte seen;                         /* the lease of the key that the look has found */
byte term_before;                  /* of the last reply before the request for the lease was sent; 0: none */

mtype:promise = { P2_a_command_is_gone_before_its_lease };
mtype:promise broken;
byte i;                            /* scratch */

inline must(promise, condition) {
  if
  :: condition
  :: else -> broken = promise; printf("BROKEN: %e\n", broken); assert(false)
  fi
}

inline end_lease(l) {
  exists[l] = false; is_known[l] = false; revoking[l] = false; left_1[l] = 0; left_2[l] = 0;
  if
  :: key_lease == l ->
     key_lease = NONE;
     printf("the key is deleted: another claim gets the lock\n");
     must(P2_a_command_is_gone_before_its_lease, deadline == 0)
  :: else
  fi
}

proctype Leaders() {
  do
  :: atomic { term == 1 -> d_step {
       term = 2; unnoticed = true;
       for (i : 0 .. LEASES - 1) { left_2[i] = (exists[i] -> LEASE : 0) }
       i = 0;
       printf("another leader is elected, in term 2\n") } }
  :: atomic { unnoticed -> unnoticed = false; printf("the former leader notices it\n") }
  od
}

proctype Lease(byte l) {
  do
  :: atomic { exists[l] && (term == 1 -> left_1[l] == 0 : left_2[l] == 0) -> d_step {
       printf("the leader ends lease %d\n", l); end_lease(l) } }
  :: atomic { unnoticed && exists[l] && is_known[l] && left_1[l] == 0 && !revoking[l] -> revoking[l] = true;
       printf("the former leader wants to revoke lease %d\n", l) }
  :: atomic { revoking[l] -> d_step { printf("lease %d is revoked for the former leader\n", l); end_lease(l) } }
  od
}

/* ---- The claim ---- */

inline begin_grant() {
  next_lease++; sent = LEASE; grant = waiting; phase = grants; term_before = look_term;
  printf("the claim asks for lease %d\n", next_lease - 1)
}
#define FRESH (next_lease - 1)

inline forget_replies() {
  alive = waiting; look = waiting; alive_term = 0; look_term = 0; seen = 0
}

/* EtcdClaimant::is_renewed_by */
#ifdef KEEPALIVE_ALONE
#define IS_CONFIRMED (lease_term == alive_term)
#elif defined(OLD_LEASE_KEPT)
#define IS_CONFIRMED (alive_term == look_term)
#else
#define IS_CONFIRMED (alive_term == look_term && lease_term == look_term)
#endif

/* The reply to the grant may tell a later term than the one in which it was written. */
#ifdef TERM_OF_REPLY_BELIEVED
#define LEASE_TERM look_term
#else
#define LEASE_TERM (term_before == look_term -> look_term : 0)
#endif

proctype Claim() {
  d_step { begin_grant() }
  do
  /* The grant of a lease, and the key on it: two writes. */
  :: atomic { phase == grants && grant == waiting -> d_step {
       grant = written; exists[FRESH] = true; left_1[FRESH] = (term == 1 -> LEASE : 0);
       is_known[FRESH] = term == 1; left_2[FRESH] = (term == 2 -> LEASE : 0) } }
  :: atomic { phase == grants && grant == written -> d_step {
       look_term = term; phase = attaches;
       printf("lease %d is granted, says a reply in term %d\n", FRESH, look_term) } }
  :: atomic { phase == attaches -> d_step {
       if
       :: exists[FRESH] && (key_lease == lease) && sent > 0 ->
          key_lease = FRESH; lease_term = LEASE_TERM; term_before = 0; deadline = sent; phase = holds;
          printf("the key is on lease %d, for %d ticks\n", FRESH, deadline);
          if
          :: lease != NONE && exists[lease] -> lease = lease; i = lease; lease = FRESH; end_lease(i); i = 0
          :: else -> lease = FRESH
          fi;
          forget_replies()
       :: else -> phase = over; deadline = 0
       fi } }

  /* A renewal: a keep-alive and a look at the key, sent together. */
  :: atomic { phase == holds && sent < LEASE -> d_step {
       sent = LEASE; phase = asks; printf("the claim sends a keep-alive and a look\n") } }
  :: atomic { phase == asks && alive == waiting && exists[lease] -> d_step {
       alive = answered; alive_term = term;
       left_1[lease] = (term == 1 -> LEASE : left_1[lease]);
       left_2[lease] = (term == 2 -> LEASE : left_2[lease]);
       printf("the leader answers the keep-alive in term %d\n", term) } }
  :: atomic { phase == asks && alive == waiting && unnoticed && is_known[lease] -> d_step {
       alive = answered; alive_term = 1; left_1[lease] = LEASE;
       printf("the former leader answers the keep-alive in term 1\n") } }
#ifdef CONFIRMED_BY_READ
  :: atomic { phase == asks && look == waiting -> d_step { look = answered; seen = key_lease; look_term = term } }
#ifdef STALE_READS
  :: atomic { phase == asks && look == waiting && unnoticed -> d_step {
       look = answered; seen = lease; look_term = 1;
       printf("the former leader answers the look from old data\n") } }
#endif
#else
  :: atomic { phase == asks && look == waiting -> look = written; seen = key_lease }
  :: atomic { phase == asks && look == written -> look = answered; look_term = term;
       printf("a majority has written the look, says a reply in term %d\n", term) }
#endif
  :: atomic { phase == asks && alive == answered && look == answered -> d_step {
       if
       :: seen == lease && IS_CONFIRMED ->
          deadline = (sent > 0 -> sent : deadline); phase = (deadline > 0 -> holds : over);
          forget_replies();
          printf("the claim relies on it for %d ticks\n", deadline)
       :: seen == lease && !IS_CONFIRMED && next_lease < LEASES -> begin_grant(); forget_replies()
       :: else -> phase = over; deadline = 0
       fi } }
  :: atomic { phase == asks -> d_step { forget_replies(); phase = holds; printf("the renewal fails\n") } }
  od
}

proctype Clock() {
  do
  :: d_step {
       printf("-- a tick\n");
       sent = (sent > 0 -> sent - 1 : 0);
       phase = (deadline == 1 -> over : phase);
       deadline = (deadline > 0 -> deadline - 1 : 0);
       for (i : 0 .. LEASES - 1) {
         left_1[i] = (left_1[i] > 0 -> left_1[i] - 1 : 0);
         left_2[i] = (left_2[i] > 0 -> left_2[i] - 1 : 0)
       }
       i = 0
     }
  od
}

init {
  atomic {
    run Claim(); run Leaders(); run Clock();
    for (i : 0 .. LEASES - 1) { run Lease(i) }
    i = 0
  }
}
