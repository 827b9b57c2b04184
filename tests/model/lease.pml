/* One lock on one server: runs that ask, wait for their turn, start a command, renew and release;
 * their guardians; and the network. README.md says how to read and check it.
 *
 * Time is in ticks. A tick passes only when nothing is due: what a part has to do by a moment, it
 * has done by then, unless it is stopped. The server's clock may run fast: once in the length of a
 * lease, a tick counts twice. Everything else that may go wrong is a fault. FAULTS of them happen,
 * at any moments. A process that is stopped continues at any time; a message that is held up
 * arrives at any time, or never.
 */
#ifndef RUNS
#define RUNS 2      /* claims of one run each */
#endif
#ifndef FAULTS
#define FAULTS 2
#endif

/* src/lock/timing.hpp, in ticks of about five seconds. is_sound: the sum of the parts is LEASE. */
#define LEASE 6                    /* on the server */
#define DRIFT 1
#define DEADLINE (LEASE - DRIFT)   /* for the run, from before the request is sent */
#define RENEW 2
#define BUDGET 1                   /* a request without a reply has failed after that */
#define GRACE_AND_MARGIN 2         /* from SIGTERM until the last process has exited */
/* shared/watching.lua, redis_claimant.cpp (pause_at_place). */
#define PROMISE 2
#define LOOK 2                     /* how often the first waiters ask if they are not woken */
#ifdef SECOND_ASLEEP
#define WATCHING 1
#else
#define WATCHING 2                 /* so many of the first: the holder may die together with one */
#endif
#define KEEP_PLACE 14              /* how often the others ask */
/* The longest time without a holder while a run waits, if nothing goes wrong meanwhile. */
#define LONGEST_GAP (LEASE + PROMISE + LOOK)

#define NOBODY RUNS

mtype:process = { works, stopped, gone };
mtype:phase = { comes, asks, waits, starts, holds, ends, over };
mtype:request = { nothing, ask, renew, release };
mtype:reply = { none, granted, busy, given_up, renewed, released, not_ours };

/* A run: its dlock, its guardian, the word in the page that both share, and its command. */
mtype:process dlock[RUNS] = works, guardian[RUNS] = works;
mtype:phase phase[RUNS] = comes;
bool command[RUNS];                /* a process of the command lives */
byte deadline[RUNS];               /* the shared word: until the lease may be over */
bool ending[RUNS];                 /* the same word: the guardian stops the command */
bool lost[RUNS];                   /* the lease is certainly lost */
byte fence[RUNS];                  /* of its grant; 0: none */
byte look[RUNS];                   /* until a waiter asks without being woken */
mtype:request asked[RUNS] = nothing;  /* the request that has no reply yet */
byte sent[RUNS];                   /* how much is left of a lease that began when it was sent */

/* The network. A request is executed and answered at once, unless a fault holds it up. */
bool travels[RUNS];                /* the request has not reached the server */
mtype:reply reply[RUNS] = none;
byte says[RUNS];                   /* the fence of a grant, or whether a waiter has to watch */
byte told[RUNS];                   /* woken: 1; the lease was handed off: 1 + its fence */
bool late_ask[RUNS], late_renew[RUNS], late_release[RUNS];  /* sent over a connection that was closed */

/* The server. */
byte holder = NOBODY;
bool is_promise;                   /* the holder has to confirm it first */
byte lease;                        /* what is left of the lease, or of the promise */
byte last_fence;
byte place[RUNS];                  /* position in the queue, from 1; 0: none */
bool passed[RUNS];                 /* has not taken its promise, nor asked since */
bool abandoned[RUNS];              /* a late request of this claim is to be refused */
bool just_granted, just_asked[RUNS];  /* since the last tick */
bool clock_went_back;
bool was_fast;                     /* its clock, in the time of this lease */

/* The promises, and what their conditions need to know. */
mtype:promise = { P5_fences_grow, P1_never_two_commands, P2_a_command_is_gone_before_its_lease,
  P12_exit_code_0_only_if_held_to_the_end, P8_nothing_is_held_for_a_released_claim,
  P3_a_loss_is_noticed_by_the_next_renewal, P6_a_waiter_gets_its_turn };
mtype:promise broken;
byte faults = FAULTS;
byte greatest_fence;
bool lost_counter;                 /* the server forgot the last fence */
bool forgotten[RUNS];              /* the server forgot this lease */
bool not_held[RUNS];               /* the command has lived without its lease */
byte gap;                          /* ticks without a holder while a run waits */

byte unnoticed;                    /* ticks for which a working dlock keeps a command without a lease */

byte i, j, next;                   /* scratch */

inline must(promise, condition) {
  if
  :: condition
  :: else -> broken = promise; printf("BROKEN: %e\n", broken); assert(false)
  fi
}

inline fault() { faults--; gap = 0; unnoticed = 0 }

/* ---- The server: src/store/redis/scripts ---- */

/* shared/granting.lua, new_holder: either the counter or the clock is ahead of all fences. */
#ifdef FENCE_BY_INCREMENT
#define NEW_FENCE (last_fence + 1)
#else
#define NEW_FENCE ((!clock_went_back && greatest_fence > last_fence -> greatest_fence : last_fence) + 1)
#endif

inline set_lease(length) { lease = length; was_fast = false }

inline grant(c) {
  last_fence = NEW_FENCE;
  must(P5_fences_grow, last_fence > greatest_fence);
  must(P8_nothing_is_held_for_a_released_claim, !abandoned[c]);
  greatest_fence = (last_fence > greatest_fence -> last_fence : greatest_fence);
  holder = c; is_promise = false; just_granted = true; set_lease(LEASE);
  printf("server grants run %d the lease with fence %d\n", c, last_fence)
}

inline leave_queue(c) {
  for (i : 0 .. RUNS - 1) {
    place[i] = place[i] - (place[c] > 0 && place[i] > place[c] -> 1 : 0)
  }
  place[c] = 0; passed[c] = false
}

/* Waiters before run c that the lock can go to. */
inline count_before(c) {
  next = 0;
  for (j : 0 .. RUNS - 1) {
    next = next + (place[j] > 0 && place[j] < place[c] && !passed[j] && holder != j -> 1 : 0)
  }
}

/* shared/watching.lua, ensure_second_watch: after a grant, another waiter is the second. */
inline ensure_second_watch() {
  for (i : 0 .. RUNS - 1) {
    count_before(i);
    look[i] = (place[i] > 0 && !passed[i] && holder != i && next == 1 && look[i] > LOOK -> LOOK : look[i])
  }
  next = 0
}

/* shared/turns.lua, promise_to_the_next: to the first waiter that was not passed over. After a
 * quick run, a waiter that asked just now gets the lease itself. */
inline promise_to_the_next(is_quick) {
  next = NOBODY;
  for (i : 0 .. RUNS - 1) {
    if
    :: place[i] > 0 && !passed[i] && (next == NOBODY || place[i] < place[next % RUNS]) -> next = i
    :: else
    fi
  }
  if
  :: holder != NOBODY || next == NOBODY
  :: else ->
     if
     :: is_quick && just_asked[next] ->
        grant(next); leave_queue(next); told[next] = 1 + last_fence;
        ensure_second_watch()
     :: else ->
        holder = next; is_promise = true; set_lease(PROMISE); told[next] = 1;
        printf("server promises run %d the lock\n", next);
        for (i : 0 .. RUNS - 1) {  /* request_promise_watch: the last waiter */
          look[i] = (place[i] > 0 && look[i] > LOOK -> LOOK : look[i])
        }
     fi
  fi;
  next = 0
}

inline execute_ask(c) {  /* ask.lua */
  just_asked[c] = true;
  if
  :: holder == c && !is_promise ->  /* as before */
     set_lease(LEASE); reply[c] = granted; says[c] = last_fence;
     printf("server says again that run %d has the lease\n", c)
#ifndef NO_TOMBSTONE
  :: holder != c && abandoned[c] -> reply[c] = given_up
#endif
  :: else ->
     passed[c] = false;
     promise_to_the_next(false);
     if
     :: holder == c || holder == NOBODY ->
        leave_queue(c); grant(c); reply[c] = granted; says[c] = last_fence;
        ensure_second_watch()
     :: else ->
        if
        :: place[c] == 0 ->
           next = 1;
           for (i : 0 .. RUNS - 1) { next = next + (place[i] > 0 -> 1 : 0) }
           place[c] = next; next = 0
        :: else
        fi;
        reply[c] = busy;
        count_before(c);  /* shared/joining.lua, has_to_watch */
        says[c] = (next < WATCHING || is_promise -> 1 : 0);
        next = 0;
        printf("server tells run %d to wait at position %d\n", c, place[c])
     fi
  fi;
  told[c] = (reply[c] == granted -> 0 : told[c])
}

inline execute_renew(c) {  /* renew.lua: a late request may have got another lease */
  if
#ifdef UNFENCED_RENEWAL
  :: holder == c && !is_promise ->
#else
  :: holder == c && !is_promise && last_fence == fence[c] ->
#endif
     set_lease(LEASE); reply[c] = renewed;
     printf("server renews the lease of run %d\n", c)
  :: else -> reply[c] = not_ours; printf("server refuses run %d a renewal\n", c)
  fi
}

inline execute_release(c) {  /* release.lua: a run that relied on its lease hears if it was lost */
  if
#ifdef UNFENCED_DELETE
  :: holder != NOBODY && !is_promise ->
#elif defined(UNCHECKED_RELEASE)
  :: holder == c ->
#else
  :: holder == c && (fence[c] == 0 || lost[c] || (!is_promise && last_fence == fence[c])) ->
#endif
     holder = NOBODY; is_promise = false; set_lease(0); reply[c] = released;
     printf("server frees the lock for run %d\n", c)
  :: else ->
#ifdef UNCHECKED_RELEASE
     reply[c] = released
#else
     reply[c] = (fence[c] == 0 || lost[c] -> released : not_ours)
#endif
  fi;
  if
  :: reply[c] == not_ours  /* and nothing was done */
  :: else ->
     leave_queue(c);
     abandoned[c] = abandoned[c] || late_ask[c];  /* dlock knows of a request without a reply */
     promise_to_the_next(just_granted)
  fi
}

inline forget() {
  for (i : 0 .. RUNS - 1) {
    forgotten[i] = forgotten[i] || (holder == i && !is_promise);
    not_held[i] = not_held[i] || command[i];
    place[i] = 0; passed[i] = false; abandoned[i] = false
  }
  holder = NOBODY; is_promise = false; set_lease(0); last_fence = 0; lost_counter = true
}

/* ---- dlock: src/store/redis/redis_claimant.cpp, src/lease, src/cli/run/locked_run.cpp ---- */

#define WORKS(c) (dlock[c] == works)
#define FREE(c) (WORKS(c) && asked[c] == nothing)
#define IN_TIME(c) (sent[c] > DEADLINE - BUDGET)
/* LockedRun::lasts, GuardianChild::may_start: enough is left to stop the command in time. */
#ifdef START_UNCHECKED
#define LASTS(c) true
#else
#define LASTS(c) (deadline[c] > GRACE_AND_MARGIN)
#endif
#define IS_LATE(c) (deadline[c] <= GRACE_AND_MARGIN)
/* RedisClaimant::await_turn, handed_over_from */
#ifdef PROMISE_UNCONFIRMED
#define HANDED_OVER(c) (told[c] > 0)
#else
#define HANDED_OVER(c) (told[c] > 1)
#endif
#define HEARS(c) (told[c] > 0 && !HANDED_OVER(c))

inline no_reply(c) { asked[c] = nothing; travels[c] = false; reply[c] = none; says[c] = 0 }

inline send(c, what) {
  asked[c] = what; sent[c] = DEADLINE; travels[c] = true;
  printf("run %d sends: %e\n", c, asked[c])
}

inline execute(c) {
  travels[c] = false;
  if
  :: asked[c] == ask -> execute_ask(c)
  :: asked[c] == renew -> execute_renew(c)
  :: asked[c] == release -> execute_release(c)
  fi
}

/* RedisConnection: so that a late reply is never read as the reply to the next request. */
inline close_connection(c) {
  late_ask[c] = late_ask[c] || (travels[c] && asked[c] == ask);
  late_renew[c] = late_renew[c] || (travels[c] && asked[c] == renew);
  late_release[c] = late_release[c] || (travels[c] && asked[c] == release);
#ifdef CONNECTION_REUSED
  asked[c] = nothing; travels[c] = false
#else
  no_reply(c)
#endif
}

inline be_over(c) { phase[c] = over; deadline[c] = 0; told[c] = 0 }

/* Exit code 0 says that the lease was held until the last process had exited. Without a reply to
 * the release that is so unless the server forgets. */
#define EXIT_IS_0(c) (fence[c] > 0 && !lost[c] && !ending[c])

inline read_reply(c) {
  printf("run %d reads: %e\n", c, reply[c]);
  if
  :: asked[c] == ask && reply[c] == granted ->
     fence[c] = says[c]; deadline[c] = sent[c]; phase[c] = starts
  :: asked[c] == ask && reply[c] == busy ->
     look[c] = (says[c] == 1 -> LOOK : KEEP_PLACE);
     phase[c] = waits
  :: asked[c] == renew && reply[c] == renewed ->  /* LeaseKeeper::renew, GuardedSupervisor::extend */
#ifdef COUNTED_FROM_REPLY
     sent[c] = DEADLINE;
#endif
     deadline[c] = (ending[c] -> deadline[c] : sent[c])
  :: asked[c] == renew && reply[c] == not_ours -> lost[c] = true; ending[c] = true
  :: asked[c] == release && reply[c] == not_ours -> lost[c] = true  /* it is released again */
  :: asked[c] == release && reply[c] == released ->
     must(P12_exit_code_0_only_if_held_to_the_end, !EXIT_IS_0(c) || !not_held[c]);
     be_over(c)
  :: else
  fi;
  no_reply(c)
}

inline fail_request(c) {
  printf("run %d gives up its request: %e\n", c, asked[c]);
  if
  :: asked[c] == release ->
     must(P12_exit_code_0_only_if_held_to_the_end, !EXIT_IS_0(c) || !not_held[c] || forgotten[c]);
     close_connection(c);
     be_over(c)
  :: else -> close_connection(c)
  fi
}

inline start_command(c) {
#ifdef START_UNCHECKED
  deadline[c] = DEADLINE;
#endif
  command[c] = true; phase[c] = holds;
  printf("run %d starts its command, for %d ticks\n", c, deadline[c]);
  for (i : 0 .. RUNS - 1) {
    must(P1_never_two_commands, i == c || !command[i] || forgotten[i] || forgotten[c])
  }
  not_held[c] = holder != c || is_promise
}

/* Either of them stops the command: GuardianProcess::look_at_deadline, and dlock if the guardian is
 * late or gone (GuardedSupervisor::overdue_at, end_without_guardian). */
#ifdef NO_GUARDIAN
#define CAN_END(c) (dlock[c] == works)
#else
#define CAN_END(c) (guardian[c] == works || dlock[c] == works)
#endif
#define HAS_TO_END(c) (command[c] && !ending[c] && IS_LATE(c) && CAN_END(c))

#define UNIMPAIRED(c) (phase[c] != over && dlock[c] == works && guardian[c] == works && faults > 0)

/* What dlock asks the server for next. */
#define ASKS(c) (phase[c] == comes || phase[c] == asks || \
  (phase[c] == starts && !LASTS(c)) || (phase[c] == waits && (HEARS(c) || look[c] == 0)))
#define RENEWS(c) (phase[c] == holds && command[c] && !lost[c] && sent[c] <= DEADLINE - RENEW)
#define RELEASES(c) (phase[c] == ends)
#define HAS_A_REQUEST(c) (FREE(c) && (ASKS(c) || RENEWS(c) || RELEASES(c)))

inline send_next(c) {
  if
  :: ASKS(c) -> told[c] = 0; look[c] = 0; fence[c] = 0; phase[c] = asks; send(c, ask)
  :: RENEWS(c) -> send(c, renew)
  :: RELEASES(c) -> send(c, release)
  fi
}

proctype Run(byte c) {
  do
  :: atomic { HAS_A_REQUEST(c) -> d_step { send_next(c); execute(c); read_reply(c) } }
  :: atomic { HAS_A_REQUEST(c) && faults > 0 -> d_step {
       fault(); send_next(c); printf("FAULT: it or its reply is held up\n") } }
  :: atomic { travels[c] -> d_step { gap = 0; execute(c) } }
  :: atomic { WORKS(c) && reply[c] != none && asked[c] != nothing -> d_step { read_reply(c) } }
  :: atomic { WORKS(c) && asked[c] != nothing && !IN_TIME(c) -> d_step { fail_request(c) } }
  /* A request that arrives after its connection was closed: the reply is not read. */
  :: atomic { (late_ask[c] || late_renew[c] || late_release[c]) && reply[c] == none -> d_step {
       gap = 0; printf("a late request of run %d arrives\n", c);
       if
       :: late_ask[c] -> late_ask[c] = false; execute_ask(c)
       :: late_renew[c] -> late_renew[c] = false; execute_renew(c)
       :: late_release[c] -> late_release[c] = false; execute_release(c)
       fi;
#ifndef CONNECTION_REUSED
       reply[c] = none; says[c] = 0
#endif
       } }

  /* A lease that was handed off is counted from the last request. */
  :: atomic { FREE(c) && phase[c] == waits && HANDED_OVER(c) -> d_step {
#ifdef PROMISE_UNCONFIRMED
       fence[c] = last_fence; deadline[c] = DEADLINE;
#else
       fence[c] = told[c] - 1; deadline[c] = sent[c];
#endif
       phase[c] = starts; told[c] = 0; look[c] = 0 } }
  /* It starts the command; when that has exited, it releases the lock. */
  :: atomic { FREE(c) && phase[c] == starts && LASTS(c) -> d_step { start_command(c) } }
  :: atomic { FREE(c) && phase[c] == holds && !command[c] -> phase[c] = ends }
  /* It gives up, and releases what it may have. */
  :: atomic { FREE(c) && (phase[c] == waits || phase[c] == asks) && faults > 0 ->
       fault(); phase[c] = ends; look[c] = 0; told[c] = 0 }

  /* The command exits by itself, or is stopped; from then on no renewal counts. */
  :: atomic { command[c] -> command[c] = false; printf("the command of run %d has exited\n", c) }
  :: atomic { HAS_TO_END(c) -> ending[c] = true; printf("the guardian of run %d stops the command\n", c) }

  :: atomic { told[c] > 0 && faults > 0 -> fault(); told[c] = 0;
       printf("FAULT: the wake-up of run %d is lost\n", c) }
  /* Processes are stopped and killed. If dlock and its guardian were stopped both, as on a host
   * that is frozen, no process could stop the command: the documented exception. */
  :: atomic { UNIMPAIRED(c) -> fault(); dlock[c] = stopped;
       printf("FAULT: dlock of run %d is stopped\n", c) }
  :: atomic { dlock[c] == stopped -> dlock[c] = works; gap = 0;
       printf("dlock of run %d continues\n", c) }
  :: atomic { UNIMPAIRED(c) -> fault(); dlock[c] = gone;
       printf("FAULT: dlock of run %d is killed\n", c) }
  :: atomic { UNIMPAIRED(c) && command[c] -> fault(); guardian[c] = stopped;
       printf("FAULT: the guardian of run %d is stopped\n", c) }
  :: atomic { guardian[c] == stopped -> guardian[c] = works; printf("the guardian of run %d continues\n", c) }
  :: atomic { UNIMPAIRED(c) && command[c] -> fault(); guardian[c] = gone; ending[c] = true;
       printf("FAULT: the guardian of run %d is killed\n", c) }
  od
}

/* ---- Time ---- */

#define DLOCK_IS_QUIET(c) (!WORKS(c) || (asked[c] != nothing && IN_TIME(c)) || \
  (asked[c] == nothing && !(ASKS(c) && phase[c] != comes) && !RENEWS(c) && !RELEASES(c) && \
   phase[c] != starts && !(phase[c] == waits && told[c] > 0) && !(phase[c] == holds && !command[c])))
#define IS_QUIET(c) (DLOCK_IS_QUIET(c) && !HAS_TO_END(c) && \
  !(command[c] && deadline[c] == 1 && CAN_END(c)))

#define WAITS(c) (FREE(c) && (phase[c] == waits || phase[c] == asks))
#define IS_SERVED(c) (command[c] || (WORKS(c) && (phase[c] == starts || phase[c] == holds || phase[c] == ends)))
#define KEEPS_A_LOST_LEASE(c) (FREE(c) && command[c] && not_held[c] && !ending[c])
#if RUNS == 2
#define OF_ALL(what) (what(0) && what(1))
#define OF_ANY(what) (what(0) || what(1))
#else
#define OF_ALL(what) (what(0) && what(1) && what(2))
#define OF_ANY(what) (what(0) || what(1) || what(2))
#endif

inline pass_tick(fast) {
  printf("-- %d tick of the run, %d of the server\n", 1, 1 + fast);
  for (i : 0 .. RUNS - 1) {
    sent[i] = (sent[i] > 0 -> sent[i] - 1 : 0);
    deadline[i] = (deadline[i] > 0 -> deadline[i] - 1 : 0);
    look[i] = (look[i] > 0 -> look[i] - 1 : 0);
    just_asked[i] = false
  }
  just_granted = false;
  lease = (lease > 1 + fast -> lease - 1 - fast : 0);
  if
  :: lease == 0 && holder != NOBODY ->
     printf("server: what run %d had has expired\n", holder);
     passed[holder] = is_promise;
     holder = NOBODY; is_promise = false; was_fast = false
  :: else
  fi;
  for (i : 0 .. RUNS - 1) {
    must(P2_a_command_is_gone_before_its_lease, !command[i] || (holder == i && !is_promise) || forgotten[i])
  }
  gap = (OF_ANY(WAITS) && !OF_ANY(IS_SERVED) -> gap + 1 : 0);
  must(P6_a_waiter_gets_its_turn, gap <= LONGEST_GAP);
  unnoticed = (OF_ANY(KEEPS_A_LOST_LEASE) -> unnoticed + 1 : 0);
  must(P3_a_loss_is_noticed_by_the_next_renewal, unnoticed <= RENEW)
}

active proctype Clock() {
  do
  :: atomic { OF_ALL(IS_QUIET) -> d_step { pass_tick(0) } }
  :: atomic { OF_ALL(IS_QUIET) && lease > 0 && !was_fast -> d_step { was_fast = true; pass_tick(1) } }
  :: atomic { faults > 0 && !clock_went_back && !lost_counter -> fault(); clock_went_back = true;
       printf("FAULT: the server's clock is set back\n") }
  :: atomic { faults > 0 && !clock_went_back -> d_step { fault(); printf("FAULT: the server forgets\n"); forget() } }
  od
}

init {
  atomic { for (i : 0 .. RUNS - 1) { run Run(i) } }
}
