/* A lock on several independent servers: claims that ask for votes in rounds, agree on a fence,
 * renew, repair and release; servers that restart, forget and answer late.
 *
 * Each claim has a seat at each server, which exchanges one message at a time. A lease lasts LEASE
 * ticks on a server; lease.pml shows that a command has exited before its deadline, and that drifting
 * clocks do not matter, so here a command simply ends with its deadline.
 */
#ifndef SERVERS
#define SERVERS 3
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef REQUESTS
#define REQUESTS 2    /* how often a claim begins to ask */
#endif
#ifndef HELD
#define HELD 0        /* the fence with which the lock was held before */
#endif
#ifndef FAILING
#define FAILING 1     /* whether servers restart and forget */
#endif
#define CLAIMS 2
#define LEASE 2
#define MAX_TTL LEASE /* --max-ttl: no lease is longer (QuorumClaimant::require_short_lease) */

#define MOST (SERVERS / 2 + 1)                    /* tally.hpp, needed */
#define IN_EVERY_MAJORITY (SERVERS - MOST + 1)    /* strength(): all but these may forget a lease */
#define NOBODY CLAIMS
#define AT(c, s) ((c) * SERVERS + (s))

mtype:phase = { comes, asks, gives_back, holds, renews, over };
mtype:vote = { unasked, granted, busy, no_vote, silent };

/* The claims: Candidacy and QuorumClaimant. */
mtype:phase phase[CLAIMS] = comes;
byte requests[CLAIMS] = REQUESTS;
byte ballot[CLAIMS];               /* the fence that is proposed */
bool raises[CLAIMS];               /* the ballot raises the fence of a vote that the claim has */
bool asked_before[CLAIMS];
byte smallest[CLAIMS];             /* the next ballot is greater than this: fences of votes given back */
byte sent[CLAIMS];                 /* what is left of a lease that began when the round did */
byte deadline[CLAIMS];             /* of the command; 0: none lives */
byte fence[CLAIMS];                /* of the grant */
mtype:vote vote[CLAIMS * SERVERS] = unasked;
byte voted[CLAIMS * SERVERS];      /* the fence of a vote */
byte late_ask[CLAIMS * SERVERS], late_release[CLAIMS * SERVERS];  /* fences in requests that may arrive */

/* The servers. */
byte holder[SERVERS] = NOBODY;
byte lease[SERVERS];
byte held_fence[SERVERS];
byte counter[SERVERS];             /* the greatest fence */
byte young[SERVERS];               /* until it has been up for MAX_TTL */

/* The promises, and what their conditions need to know. */
mtype:promise = { P1_never_two_commands, P5_fences_grow };
mtype:promise broken;
byte faults = FAULTS;
bool too_many_forgot[CLAIMS];      /* more servers than the strength of the claim */
byte greatest;                     /* fence of all grants */
bool knows[SERVERS];               /* the fence of the last grant */
bool too_many_lost;                /* so few know it that a majority may not */
byte i, j, n, f, k;                /* scratch */

inline must(promise, condition) {
  if
  :: condition
  :: else -> broken = promise; printf("BROKEN: %e\n", broken); assert(false)
  fi
}

/* ---- A server: ask.lua, release.lua and renew.lua with a ballot ---- */

inline execute_ask(c, s, proposed, may_raise) {
  if
  :: holder[s] == c ->
     lease[s] = LEASE;
     held_fence[s] = (may_raise && proposed > held_fence[s] -> proposed : held_fence[s]);
     counter[s] = (held_fence[s] > counter[s] -> held_fence[s] : counter[s])
  :: holder[s] == NOBODY ->
     holder[s] = c; lease[s] = LEASE;
     counter[s] = (proposed > counter[s] -> proposed : counter[s] + 1);
     held_fence[s] = counter[s]
  :: else
  fi
}

inline execute_release(c, s, of_fence) {
  if
#ifdef UNFENCED_RELEASE
  :: holder[s] == c ->
#else
  :: holder[s] == c && held_fence[s] == of_fence ->
#endif
     holder[s] = NOBODY; lease[s] = 0; held_fence[s] = 0
  :: else
  fi
}

/* How many servers have the lease of a claim until its deadline, and know the fence of the last grant. */
inline look_at_leases(c) {
  n = 0;
  for (j : 0 .. SERVERS - 1) { n = n + (holder[j] == c && held_fence[j] == fence[c] && lease[j] >= deadline[c] -> 1 : 0) }
}

inline look_at_counters() {
  n = 0;
  for (j : 0 .. SERVERS - 1) { n = n + (knows[j] -> 1 : 0) }
}

inline forget(s) {
  holder[s] = NOBODY; lease[s] = 0; held_fence[s] = 0; counter[s] = 0; knows[s] = false;
  look_at_counters();
  too_many_lost = too_many_lost || n < IN_EVERY_MAJORITY;
  n = 0
}

/* tally.cpp, counted(): what it answers is the same. */
inline cast(c, s) {
  if
  :: holder[s] != c -> vote[AT(c, s)] = busy
#ifndef NO_UPTIME_RULE
  :: holder[s] == c && young[s] > 0 -> vote[AT(c, s)] = no_vote
  :: holder[s] == c && young[s] == 0 ->
#else
  :: holder[s] == c ->
#endif
     vote[AT(c, s)] = granted; voted[AT(c, s)] = held_fence[s]
  fi;
#ifndef NO_UPTIME_RULE
  vote[AT(c, s)] = (young[s] > 0 -> no_vote : vote[AT(c, s)]);
#endif
  printf("claim %d at server %d: %e, fence %d\n", c, s, vote[AT(c, s)], voted[AT(c, s)])
}

/* ---- The seat of a claim at a server ---- */

/* Servers are alike: let them be numbered in the order in which claim 0 reaches them first. */
#define IN_ORDER(c, s) (c > 0 || s == 0 || requests[0] < REQUESTS - 1 || vote[AT(c, (s > 0 -> s - 1 : 0))] != unasked)

proctype Seat(byte c; byte s) {
  do
  :: atomic { phase[c] == asks && vote[AT(c, s)] == unasked && IN_ORDER(c, s) -> d_step {
       execute_ask(c, s, ballot[c], raises[c]); cast(c, s) } }
  :: atomic { phase[c] == asks && vote[AT(c, s)] == unasked && IN_ORDER(c, s) && faults > 0 ->
       faults--; vote[AT(c, s)] = silent;
       printf("FAULT: claim %d hears nothing from server %d\n", c, s);
       if
       :: d_step { execute_ask(c, s, ballot[c], raises[c]) }
       :: late_ask[AT(c, s)] = ballot[c]
       fi }
  :: atomic { late_ask[AT(c, s)] > 0 -> d_step {
       printf("the late request of claim %d reaches server %d\n", c, s);
       execute_ask(c, s, late_ask[AT(c, s)], raises[c]); late_ask[AT(c, s)] = 0 } }

  :: atomic { phase[c] == gives_back && vote[AT(c, s)] == granted && faults > 0 -> d_step {
       faults--; printf("FAULT: claim %d hears nothing from server %d\n", c, s);
       late_release[AT(c, s)] = voted[AT(c, s)]; vote[AT(c, s)] = unasked; voted[AT(c, s)] = 0 } }
  :: atomic { late_release[AT(c, s)] > 0 -> d_step {
       printf("the late release of claim %d reaches server %d\n", c, s);
       execute_release(c, s, late_release[AT(c, s)]); late_release[AT(c, s)] = 0 } }

  :: atomic { phase[c] == renews && vote[AT(c, s)] == unasked && faults > 0 ->
       faults--; vote[AT(c, s)] = silent;
       printf("FAULT: claim %d hears nothing from server %d\n", c, s) }
  /* The lease is set up again where it is missing: QuorumClaimant::repair. */
  :: atomic { phase[c] == holds && vote[AT(c, s)] == busy && holder[s] == NOBODY -> d_step {
       holder[s] = c; lease[s] = LEASE; held_fence[s] = fence[c];
       counter[s] = (fence[c] > counter[s] -> fence[c] : counter[s]);
       vote[AT(c, s)] = granted } }
  od
}

/* ---- The claim ---- */

inline count_votes(c, what) {
  n = 0;
  for (i : 0 .. SERVERS - 1) { n = n + (vote[AT(c, i)] == what -> 1 : 0) }
}

inline forget_votes(c) {
  for (i : 0 .. SERVERS - 1) { vote[AT(c, i)] = unasked; voted[AT(c, i)] = 0 }
  i = 0
}

inline be_over(c) {
  forget_votes(c);
  deadline[c] = 0; sent[c] = 0; ballot[c] = 0; fence[c] = 0; smallest[c] = 0; requests[c] = 0;
  raises[c] = false; asked_before[c] = false; too_many_forgot[c] = false;
  phase[c] = over
}

inline begin_round(c, next_phase) {
  forget_votes(c);
  sent[c] = LEASE;
  phase[c] = next_phase
}

inline propose(c, clock) {
  ballot[c] = (clock > smallest[c] -> clock : smallest[c] + 1);
  requests[c]--;
  printf("claim %d asks for votes with fence %d\n", c, ballot[c]);
  begin_round(c, asks)
}

/* The fence that MOST of the votes have (f, k votes; else k is smaller), and the greatest (n). */
inline look_at_fences(c) {
  f = 0; k = 0; n = 0;
  for (i : 0 .. SERVERS - 1) {
    if
    :: vote[AT(c, i)] == granted ->
       n = (voted[AT(c, i)] > n -> voted[AT(c, i)] : n);
       if
       :: k < MOST ->
          f = voted[AT(c, i)]; k = 0;
          for (j : 0 .. SERVERS - 1) { k = k + (vote[AT(c, j)] == granted && voted[AT(c, j)] == f -> 1 : 0) }
       :: else
       fi
    :: else
    fi
  }
}

inline raise(c, higher) {
  ballot[c] = higher; raises[c] = true;
  printf("claim %d raises the fence to %d\n", c, ballot[c]);
  begin_round(c, asks)
}

inline grant(c) {
  fence[c] = f;
#ifdef COUNTED_FROM_LAST_VOTE
  sent[c] = LEASE;
#endif
  if
  :: sent[c] == 0 -> ballot[c] = f; begin_round(c, asks)  /* RunLocks::make_sure */
  :: else ->
     deadline[c] = sent[c]; phase[c] = holds;
     printf("claim %d holds the lock with fence %d\n", c, f);
     k = 0;
     for (i : 0 .. SERVERS - 1) {
       knows[i] = vote[AT(c, i)] == granted && voted[AT(c, i)] == f && holder[i] == c && held_fence[i] == f;
       k = k + (vote[AT(c, i)] == granted && voted[AT(c, i)] == f -> 1 : 0)
     }
     look_at_counters();  /* k have granted it, n still know of it */
     too_many_forgot[c] = n < IN_EVERY_MAJORITY && n < k;
     for (i : 0 .. CLAIMS - 1) {
       must(P1_never_two_commands, i == c || deadline[i] == 0 || too_many_forgot[i] || too_many_forgot[c])
     }
     must(P5_fences_grow, f > greatest || too_many_lost || too_many_forgot[c]);
     too_many_lost = too_many_forgot[c] || f <= greatest;
     greatest = (f > greatest -> f : greatest)
  fi
}

/* Candidacy::after */
inline decide(c) {
  count_votes(c, granted); k = n;
  count_votes(c, busy);
  if
  :: k + n < MOST -> phase[c] = comes  /* too few have answered; it asks again, and keeps its votes */
  :: k + n >= MOST && k < MOST ->
     look_at_fences(c);
     smallest[c] = n; raises[c] = true; phase[c] = gives_back
  :: else ->
     look_at_fences(c);
     if
#ifdef ONE_ROUND
     :: true -> f = n; grant(c)
#else
     :: k < MOST -> n = (n > ballot[c] -> n : ballot[c]); raise(c, n)
     :: k >= MOST && asked_before[c] && f < ballot[c] -> raise(c, ballot[c])
     :: k >= MOST && !(asked_before[c] && f < ballot[c]) -> grant(c)
#endif
     fi
  fi;
  asked_before[c] = true;
  n = 0; f = 0; k = 0
}

#define NONE_IS(c, what) (vote[AT(c, 0)] != what && vote[AT(c, 1)] != what && vote[AT(c, 2)] != what && \
  (SERVERS < 5 || (vote[AT(c, 3 % SERVERS)] != what && vote[AT(c, 4 % SERVERS)] != what)))

proctype Claim(byte c) {
  do
  /* A fence is the time by the claim's clock, which may be right, or far behind. */
  :: atomic { phase[c] == comes && requests[c] > 0 -> d_step { propose(c, greatest + 1) } }
  :: atomic { phase[c] == comes && requests[c] > 0 && greatest > 0 -> d_step { propose(c, 1) } }
  :: atomic { phase[c] == asks && NONE_IS(c, unasked) -> d_step { decide(c) } }
  :: atomic { phase[c] == gives_back -> d_step {
       for (i : 0 .. SERVERS - 1) {
         if
         :: vote[AT(c, i)] == granted -> execute_release(c, i, voted[AT(c, i)])
         :: else
         fi
       }
       forget_votes(c); phase[c] = comes } }

  :: atomic { phase[c] == holds && sent[c] < LEASE -> d_step { begin_round(c, renews) } }
  :: atomic { phase[c] == renews -> d_step {
       for (i : 0 .. SERVERS - 1) {
         if
         :: vote[AT(c, i)] == silent
         :: else ->
            lease[i] = (holder[i] == c && held_fence[i] == fence[c] -> LEASE : lease[i]);
            vote[AT(c, i)] = (holder[i] == c && held_fence[i] == fence[c] -> granted : busy)
         fi
       }
       count_votes(c, granted); k = n;
       count_votes(c, busy);
       if
       :: k >= MOST -> deadline[c] = sent[c]; phase[c] = holds
       :: k < MOST && SERVERS - n < MOST -> be_over(c)  /* certainly lost */
       :: else -> phase[c] = holds
       fi;
       n = 0; k = 0 } }
  :: atomic { phase[c] == holds -> d_step {
       for (i : 0 .. SERVERS - 1) { execute_release(c, i, fence[c]) }
       printf("claim %d releases the lock\n", c);
       be_over(c) } }
  od
}

/* ---- Time, and servers that fail ---- */

inline pass_tick() {
  printf("-- a tick\n");
  for (k : 0 .. CLAIMS - 1) {
    sent[k] = (sent[k] > 0 -> sent[k] - 1 : 0);
    if
    :: deadline[k] == 1 -> printf("the command of claim %d is stopped\n", k); be_over(k)
    :: else
    fi;
    deadline[k] = (deadline[k] > 0 -> deadline[k] - 1 : 0)
  }
  k = 0;
  for (i : 0 .. SERVERS - 1) {
    lease[i] = (lease[i] > 0 -> lease[i] - 1 : 0);
    holder[i] = (lease[i] > 0 -> holder[i] : NOBODY);
    held_fence[i] = (lease[i] > 0 -> held_fence[i] : 0);
    young[i] = (young[i] > 0 -> young[i] - 1 : 0)
  }
  i = 0
}

/* A round takes less than a tick, unless a fault delays it. */
#define IS_IN_ROUND(c) (phase[c] == asks || phase[c] == gives_back || phase[c] == renews)

active proctype Clock() {
  do
  :: d_step { !IS_IN_ROUND(0) && !IS_IN_ROUND(1) -> pass_tick() }
  :: d_step { faults > 0 && (IS_IN_ROUND(0) || IS_IN_ROUND(1)) ->
       faults--; printf("FAULT: replies take long\n"); pass_tick() }
  od
}

proctype Server(byte s) {
  do
  :: atomic { FAILING && faults > 0 -> d_step {
       faults--; printf("FAULT: server %d restarts, with nothing in its memory\n", s);
       forget(s); young[s] = MAX_TTL } }
  :: atomic { FAILING && faults > 0 && counter[s] > 0 -> d_step {
       faults--; printf("FAULT: server %d forgets everything\n", s);
       k = holder[s];
       forget(s);
       for (i : 0 .. CLAIMS - 1) {
         look_at_leases(i);
         too_many_forgot[i] = too_many_forgot[i] || (k == i && deadline[i] > 0 && n < IN_EVERY_MAJORITY)
       }
       n = 0; k = 0 } }
  od
}

init {
  atomic {
    /* If the lock was held before, a majority knows its fence. */
    for (i : 0 .. (HELD > 0 -> SERVERS - 1 : 0)) {
      if
      :: HELD == 0
      :: HELD > 0 && n < MOST -> n++; knows[i] = true; counter[i] = HELD
      :: HELD > 0 && SERVERS - i > MOST - n
      fi
    }
    greatest = HELD; n = 0;
    for (i : 0 .. SERVERS - 1) { run Server(i); for (j : 0 .. CLAIMS - 1) { run Seat(j, i) } }
    for (i : 0 .. CLAIMS - 1) { run Claim(i) }
    i = 0; j = 0
  }
}
