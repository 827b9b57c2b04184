/* The stores that keep the state of a lock in a row of a database (store/stepped, PostgreSQL): steps
 * that read the row, and write it if its version is still the same, else once more under the row's
 * lock; transactions without an answer, and requests that arrive late; a commit that waits for a
 * standby and is cancelled; a primary that is replaced by its standby; rows that are removed when
 * they are not in use. Time passes at any moment: nothing here is prompt.
 */
#ifndef STEPS
#define STEPS 3       /* that each claim begins, releases not counted */
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#define CLAIMS 2
#define LEASE 2
#define NOBODY CLAIMS

mtype:phase = { comes, holds, releases, over };
mtype:step = { idle, has_read, writes, executed };
mtype:answer = { none, done, was_faster, done_with_warning };

/* The primary's row, the standby's, and the transaction that waits for the standby. */
bool exists;
byte version, holder = NOBODY, ends;   /* ends: what is left of the lease */
bool there_is_a_standby = true, s_exists;
byte s_version, s_holder = NOBODY, s_ends;
byte committing = NOBODY;
byte c_version, c_holder = NOBODY, c_ends;
byte locked_by = NOBODY;               /* SELECT … FOR UPDATE */
byte newest;                           /* the clock: a row that is made gets a version after all others */

/* The claims: SteppedClaimant and take(). */
mtype:phase phase[CLAIMS] = comes;
mtype:step step[CLAIMS] = idle;
mtype:answer answer[CLAIMS] = none;
bool exclusive[CLAIMS];            /* another step was faster: now under the row's lock */
bool unanswered[CLAIMS];           /* an earlier request of this claim may still arrive */
byte steps[CLAIMS] = STEPS;
byte sent[CLAIMS];                 /* what is left of a lease that began before the row was read */
byte deadline[CLAIMS];             /* of the command; 0: none lives */
byte read_version[CLAIMS];         /* 0: there was no row */
byte new_holder[CLAIMS], new_ends[CLAIMS];  /* what it writes */
bool is_late[CLAIMS];              /* a request that no one waits for */
byte late_version[CLAIMS], late_holder[CLAIMS], late_ends[CLAIMS];

mtype:promise = { P1_never_two_commands, P2_a_lease_stays_as_long_as_its_command,
  P8_nothing_is_held_for_a_released_claim };
mtype:promise broken;
bool released[CLAIMS];             /* and the store has said so */
byte faults = FAULTS;
byte i, w;                         /* scratch */

inline must(promise, condition) {
  if
  :: condition
  :: else -> broken = promise; printf("BROKEN: %e\n", broken); assert(false)
  fi
}

/* ---- The database: src/store/postgres/pg_rows.cpp ---- */

#ifdef VERSION_NOT_COMPARED
#define IS_AS_READ(v) true
#else
#define IS_AS_READ(v) (v == (exists -> version : 0))
#endif
#ifdef NEW_ROW_AT_VERSION_ONE
#define NEXT_VERSION (exists -> version + 1 : 1)
#else
#define NEXT_VERSION (exists -> version + 1 : newest + 1)
#endif

inline set_row(v, h, e) {
  for (i : 0 .. CLAIMS - 1) {
    must(P2_a_lease_stays_as_long_as_its_command, deadline[i] == 0 || holder != i || h == i)
  }
  must(P8_nothing_is_held_for_a_released_claim, h == NOBODY || !released[h % CLAIMS] || e == 0 || holder == h);
  exists = true; version = v; holder = h; ends = e;
  newest = (version > newest -> version : newest);
  printf("the row: version %d, holder %d\n", version, holder)
}

/* A right is committed synchronously: it is durable where it has to be before the answer. */
#ifdef GRANT_ASYNCHRONOUS
#define WAITS_FOR_STANDBY(h) false
#else
#define WAITS_FOR_STANDBY(h) (there_is_a_standby && h != NOBODY)
#endif

#define CAN_WRITE(c) (committing == NOBODY && (locked_by == NOBODY || locked_by == c))

#define EXPECTS_NO_ROW(c) ((step[c] == writes && read_version[c] == 0) || (is_late[c] && late_version[c] == 0))

/* To the session that waits for the standby, if its client is still there. */
inline reply(what) {
  answer[committing] = (step[committing] == executed -> what : none);
  committing = NOBODY; c_version = 0; c_holder = NOBODY; c_ends = 0
}

proctype Primary() {
  do
  /* The standby has everything that was committed before, in order. */
  :: atomic { there_is_a_standby && committing != NOBODY -> d_step {
       s_exists = true; s_version = c_version; s_holder = c_holder; s_ends = c_ends;
       set_row(c_version, c_holder, c_ends);
       reply(done); printf("the standby has it\n") } }
  :: atomic { there_is_a_standby && committing == NOBODY && (s_version != version || s_exists != exists) -> d_step {
       s_exists = exists; s_version = version; s_holder = holder; s_ends = ends } }
  :: atomic { committing != NOBODY && faults > 0 -> d_step {
       faults--; printf("FAULT: the wait for the standby is cancelled\n");
       set_row(c_version, c_holder, c_ends);
#ifdef WARNING_IGNORED
       reply(done)
#else
       reply(done_with_warning)
#endif
       } }
  :: atomic { committing != NOBODY && faults > 0 -> d_step {
       faults--; printf("FAULT: the session that waits for the standby is terminated\n");
       set_row(c_version, c_holder, c_ends); reply(none) } }
  :: atomic { there_is_a_standby && faults > 0 -> d_step {
       faults--; printf("FAULT: the standby replaces the primary\n");
       there_is_a_standby = false; locked_by = NOBODY;
       exists = s_exists; version = s_version; holder = s_holder; ends = s_ends;
       s_exists = false; s_version = 0; s_holder = NOBODY; s_ends = 0;
       committing = NOBODY; c_version = 0; c_holder = NOBODY; c_ends = 0;
       for (i : 0 .. CLAIMS - 1) {  /* all connections to the old one are lost, with what was on its way */
         unanswered[i] = unanswered[i] || step[i] != idle;
         step[i] = idle; exclusive[i] = false; answer[i] = none;
         new_holder[i] = 0; read_version[i] = 0; new_ends[i] = 0; sent[i] = 0;
         is_late[i] = false; late_version[i] = 0; late_holder[i] = 0; late_ends[i] = 0
       }
       i = 0 } }
  /* It is out of use: for so long that no request that expects no row can still be on its way. */
  :: atomic { exists && !EXPECTS_NO_ROW(0) && !EXPECTS_NO_ROW(1) && committing == NOBODY && locked_by == NOBODY && (holder == NOBODY || ends == 0) &&
       deadline[0] == 0 && deadline[1] == 0 && faults > 0 -> d_step {
       faults--; printf("the row is removed\n");
       exists = false; version = 0; holder = NOBODY; ends = 0 } }
  od
}

/* ---- A claim ---- */

/* SteppedClaimant: the rule is applied to what was read. */
inline read(c) {
  sent[c] = (exclusive[c] -> sent[c] : LEASE);
  read_version[c] = (exists -> version : 0);
  new_ends[c] = LEASE;
  locked_by = (exclusive[c] -> c : locked_by);
  if
  :: phase[c] == comes && (holder == NOBODY || holder == c || ends == 0) ->
     new_holder[c] = c; step[c] = writes
  :: phase[c] == holds && holder == c -> new_holder[c] = c; step[c] = writes
  :: phase[c] == holds && holder != c -> deadline[c] = 0; phase[c] = over; printf("claim %d has lost its lease\n", c)
  :: phase[c] == releases && holder == c -> new_holder[c] = NOBODY; new_ends[c] = 0; step[c] = writes
#ifndef FORCED_WRITE_LEFT_OUT
  :: phase[c] != holds && holder != c && unanswered[c] && !(phase[c] == comes && (holder == NOBODY || ends == 0)) ->
     new_holder[c] = holder; new_ends[c] = ends; step[c] = writes  /* only so that the version moves on */
#endif
  :: else ->
     released[c] = phase[c] == releases; phase[c] = (phase[c] == releases -> over : comes)
  fi;
  if
  :: step[c] == writes -> printf("claim %d has read version %d, and writes holder %d\n", c, read_version[c], new_holder[c])
  :: else -> locked_by = (locked_by == c -> NOBODY : locked_by); exclusive[c] = false
  fi
}

inline execute(c, v, h, e) {
  if
  :: !IS_AS_READ(v) -> answer[c] = was_faster
  :: IS_AS_READ(v) && WAITS_FOR_STANDBY(h) ->
     committing = c; c_version = NEXT_VERSION; c_holder = h; c_ends = e
  :: IS_AS_READ(v) && !WAITS_FOR_STANDBY(h) -> w = NEXT_VERSION; set_row(w, h, e); answer[c] = done
  fi;
  w = 0;
  locked_by = (locked_by == c -> NOBODY : locked_by)
}

inline finish(c) {
  step[c] = idle; exclusive[c] = false; answer[c] = none;
  steps[c] = (phase[c] == comes || phase[c] == holds -> steps[c] : 0);
  unanswered[c] = unanswered[c] && phase[c] != over
}

inline take_answer(c) {
  if
  :: answer[c] == was_faster ->
#ifdef CONFLICT_ENDS_DOUBT
     unanswered[c] = false;
#endif
     finish(c); exclusive[c] = phase[c] != over
  :: answer[c] == done_with_warning -> finish(c); phase[c] = releases; deadline[c] = 0  /* not confirmed */
  :: answer[c] == done && new_holder[c] != c && phase[c] == releases ->
     unanswered[c] = false; released[c] = true; phase[c] = over; finish(c)
  :: answer[c] == done && new_holder[c] != c && phase[c] != releases -> unanswered[c] = false; finish(c)
  :: answer[c] == done && new_holder[c] == c ->
     unanswered[c] = false; finish(c);
#ifdef COUNTED_FROM_REPLY
     sent[c] = LEASE;
#endif
     deadline[c] = sent[c];
     phase[c] = (deadline[c] > 0 -> holds : releases);
     printf("claim %d has the lock for %d ticks\n", c, deadline[c]);
     for (i : 0 .. CLAIMS - 1) { must(P1_never_two_commands, i == c || deadline[i] == 0 || deadline[c] == 0) }
  fi;
  new_holder[c] = 0; read_version[c] = 0; new_ends[c] = 0; sent[c] = 0
}

proctype Claim(byte c) {
  do
  :: atomic { step[c] == idle && (phase[c] == comes || phase[c] == holds) && steps[c] > 0 &&
       (!exclusive[c] || (locked_by == NOBODY && committing == NOBODY)) -> d_step { steps[c]--; read(c) } }
  :: atomic { step[c] == idle && phase[c] == releases &&
       (!exclusive[c] || (locked_by == NOBODY && committing == NOBODY)) -> d_step { read(c) } }
  :: atomic { step[c] == writes && CAN_WRITE(c) -> d_step {
       step[c] = executed; execute(c, read_version[c], new_holder[c], new_ends[c]) } }
  :: atomic { step[c] == executed && answer[c] != none -> d_step { take_answer(c) } }
  :: atomic { step[c] == writes && CAN_WRITE(c) && faults > 0 -> d_step {
       faults--; printf("FAULT: the server reports a conflict to claim %d, because of another row\n", c);
       step[c] = executed; answer[c] = was_faster; locked_by = (locked_by == c -> NOBODY : locked_by) } }

  /* The connection breaks, or the time of the step is over: it may have been written, or will be. */
  :: atomic { (step[c] == writes || step[c] == executed) && faults > 0 && !is_late[c] -> d_step {
       faults--; printf("FAULT: claim %d gets no answer\n", c);
       is_late[c] = step[c] == writes;
       late_version[c] = read_version[c]; late_holder[c] = new_holder[c]; late_ends[c] = new_ends[c];
       locked_by = (locked_by == c -> NOBODY : locked_by);
       unanswered[c] = true; finish(c);
       new_holder[c] = 0; read_version[c] = 0; new_ends[c] = 0; sent[c] = 0 } }
  :: atomic { is_late[c] && CAN_WRITE(NOBODY) -> d_step {
       is_late[c] = false;
       if
       :: IS_AS_READ(late_version[c]) ->
          printf("a late request of claim %d is executed\n", c); w = NEXT_VERSION; set_row(w, late_holder[c], late_ends[c]); w = 0
       :: else
       fi;
       late_version[c] = 0; late_holder[c] = 0; late_ends[c] = 0 } }

  /* The command ends; or the claim gives up. */
  :: atomic { step[c] == idle && (phase[c] == holds || phase[c] == comes) && steps[c] < STEPS ->
       deadline[c] = 0; phase[c] = releases; steps[c] = 0 }
  :: atomic { phase[c] != over && faults > 0 -> d_step {
       faults--; printf("FAULT: claim %d is killed\n", c);
       is_late[c] = is_late[c] || step[c] == writes;
       late_version[c] = (step[c] == writes -> read_version[c] : late_version[c]);
       late_holder[c] = (step[c] == writes -> new_holder[c] : late_holder[c]);
       late_ends[c] = (step[c] == writes -> new_ends[c] : late_ends[c]);
       locked_by = (locked_by == c -> NOBODY : locked_by);
       deadline[c] = 0; phase[c] = over; finish(c) } }
  od
}

#define MINUS_1(x) (x > 0 -> x - 1 : 0)

proctype Clock() {
  do
  :: d_step {
       printf("-- a tick\n");
       for (i : 0 .. CLAIMS - 1) {
         sent[i] = MINUS_1(sent[i]); new_ends[i] = MINUS_1(new_ends[i]); late_ends[i] = MINUS_1(late_ends[i]);
         phase[i] = (deadline[i] == 1 && phase[i] == holds && step[i] == idle -> releases : phase[i]);
         deadline[i] = MINUS_1(deadline[i])
       }
       ends = MINUS_1(ends); s_ends = MINUS_1(s_ends); c_ends = MINUS_1(c_ends)
     }
  od
}

init { atomic { run Primary(); run Clock(); run Claim(0); run Claim(1) } }
