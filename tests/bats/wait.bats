#!/usr/bin/env bats
# Waiting for a lock: the order of waiters, what a wait costs, and how it ends.
# shellcheck disable=SC2016  # the commands' own variables
# shellcheck disable=SC2154  # hold and queue set holder and waiter

setup() {
  load support
  load ../faults/locks
  use_private_store
  order=$BATS_TEST_TMPDIR/order
  released=$BATS_TEST_TMPDIR/released
  began=$BATS_TEST_TMPDIR/began
}

teardown() { kill_leftovers; }

# Commands of waiters: one records that it started, the other when it started.
# shellcheck disable=SC2016
{
  noting=(sh -c 'echo "$2" >> "$1"' -)
  timing=(bash -c 'clock_into "$1"' -)
}

started() { grep -qsx "$1" "$order"; }

all_started() { (($(wc -l < "$order") >= $1)); }

sockets() { find "$BATS_TEST_TMPDIR/store" -name 'wake-*'; }

no_sockets() { [[ -z $(sockets) ]]; }

# Prints how often a process went to sleep.
sleeps() { awk '/^voluntary_ctxt_switches/ { print $2 }' "/proc/$1/status"; }

slept_more_than() { (($(sleeps "$1") > $2)); }

is_quiet() {
  local before
  before=$(sleeps "$1")
  sleep 0.1
  [[ $(sleeps "$1") == "$before" ]]
}

@test "a free lock is granted at once to a run that would wait" {
  run timeout 5 dlock run -w 60s job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "forty waiters get the lock one at a time" {
  # shellcheck disable=SC2016
  alone='mkdir "$1" && echo 1 >> "$2" && rmdir "$1"'
  hold job
  for _ in {1..40}; do
    dlock run -w 60s job -- sh -c "$alone" - "$BATS_TEST_TMPDIR/inside" "$order" 3>&- &
  done

  let_go

  EVENTUALLY_MS=60000 eventually all_started 40
}

@test "the first waiter gets a released lock within a second" {
  hold job
  queue job "${timing[@]}" "$began"

  clock_into "$released"
  let_go

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 1000
}

@test "five waiters get a lock one after another within a second" {
  hold job
  for _ in 1 2 3 4; do queue job -- true; done
  queue job "${timing[@]}" "$began"

  clock_into "$released"
  let_go

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 1000
}

@test "a killed waiter is skipped at once" {
  hold job
  queue job "${noting[@]}" "$order" killed
  killed=$waiter
  queue job "${timing[@]}" "$began"
  kill -KILL "$killed"

  clock_into "$released"
  let_go

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 1000
}

# Starts a waiter in another PID namespace, as in a container, and stops it. Its pid means
# nothing here, so no process can see that it is stopped.
queue_stopped_elsewhere() {  # <name>
  needs_root
  unshare --pid --fork --kill-child dlock run --wait 60s "$1" -- true 3>&- &
  eventually somebody_waits "$1"
  kill -STOP "$(pgrep -P $!)"
}

@test "a stopped waiter in another container delays the next one by only three seconds" {
  hold job
  queue_stopped_elsewhere job
  queue job "${timing[@]}" "$began"

  clock_into "$released"
  let_go

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 2500 4500
}

@test "a waiter that was stopped at its turn gets the lock after it is continued" {
  hold job
  queue job "${noting[@]}" "$order" stopped
  stopped=$waiter
  kill -STOP "$stopped"
  queue job "${noting[@]}" "$order" next
  let_go
  eventually started next

  kill -CONT "$stopped"

  eventually started stopped
}

@test "a run without --wait does not overtake a waiter" {
  hold job
  queue job true
  kill -STOP "$waiter"
  let_go
  eventually is_free job

  run dlock run job -- true

  assert_status 75
  assert_output_contains 'promised'
}

@test "a waiter whose wake-up was lost gets the lock within seconds" {
  hold job
  queue job "${timing[@]}" "$began"
  rm "$(sockets)"

  clock_into "$released"
  let_go

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 2500
}

@test "a wait that ends without the lock exits with 75 in time" {
  hold job

  begin=$(now_ms)
  run dlock run -w 300ms job -- true

  assert_status 75
  assert_between $(($(now_ms) - begin)) 300 1500
}

@test "a wait that ends without the lock says in one line who holds it" {
  hold job

  run dlock run -w 100ms job -- true

  assert_one_line
  assert_output_contains "dlock: job: held by $(id -un)@$(uname -n) (pid $holder, sh -c "
}

@test "-w forever waits and then runs" {
  hold job
  dlock run -w forever job -- "${noting[@]}" "$order" patient 3>&- &
  eventually is_queued job $!

  let_go

  assert_exits 0 $!
  started patient
}

@test "SIGTERM kills a waiter at once" {
  hold job
  queue job true

  begin=$(now_ms)
  kill -TERM "$waiter"

  assert_exits 143 "$waiter"
  assert_between $(($(now_ms) - begin)) 0 1000
}

@test "a waiter that a signal kills leaves the queue" {
  hold job
  queue job true

  kill -INT "$waiter"
  kill -TERM "$waiter"

  assert_exits 143 "$waiter"
  nobody_waits job
}

@test "a waiter in the third place sleeps without waking" {
  hold job
  for _ in 1 2 3; do queue job true; done
  eventually is_quiet "$waiter"

  never_within 2000 slept_more_than "$waiter" "$(sleeps "$waiter")"
}

@test "a waiter in the first place wakes at most about once a second" {
  hold job
  queue job true
  eventually is_quiet "$waiter"

  never_within 2000 slept_more_than "$waiter" $(($(sleeps "$waiter") + 3))
}

# What others in a shared directory can do: sends datagrams to all waiters, and changes and
# closes the files of the store, without end.
disturb() {
  perl -MIO::Socket::UNIX -e '
    my @sockets = map { IO::Socket::UNIX->new(Type => SOCK_DGRAM, Peer => $_) } glob "$ARGV[0]/wake-*";
    $_->blocking(0) for @sockets;
    my @states = glob "$ARGV[0]/state-*/*.lock";
    while (getppid == $ARGV[1]) {
      $_->send("x") for @sockets;
      utime undef, undef, @states;
      open my $sessions, "<", "$ARGV[0]/sessions";
    }' "$BATS_TEST_TMPDIR/store" $$ 3>&- &
}

@test "a flood of wake-ups and changes of files keeps neither a waiter nor a holder busy" {
  hold job
  queue job "${timing[@]}" "$began"
  eventually is_quiet "$waiter"
  disturb

  never_within 1000 false  # the first wake-ups are free
  never_within 2000 slept_more_than "$waiter" $(($(sleeps "$waiter") + 400))
  never_within 2000 slept_more_than "$holder" $(($(sleeps "$holder") + 400))

  clock_into "$released"
  let_go
  assert_exits 0 "$waiter"
  assert_between "$(ms_between "$released" "$began")" 0 700
}

@test "waiters leave no socket behind after their turn" {
  hold job
  for _ in 1 2 3; do queue job true; done
  last=$waiter

  let_go

  assert_exits 0 "$last"
  no_sockets
}

@test "a wait that ended without the lock leaves no socket behind" {
  hold job

  dlock run -w 100ms job -- true || true

  no_sockets
}

@test "the next waiter removes the socket of a killed one" {
  hold job
  queue job true
  kill -KILL "$waiter"
  queue job true

  let_go

  assert_exits 0 "$waiter"
  no_sockets
}

@test "a more important run goes first, and status and watch show its priority" {
  hold job
  dlock -v watch --json job > "$BATS_TEST_TMPDIR/events" 2> "$BATS_TEST_TMPDIR/said" 3>&- &
  watcher=$!
  eventually grep -q '^dlock: watching$' "$BATS_TEST_TMPDIR/said"
  queue job --label usual -- sh -c 'echo usual >> "$0"' "$order"
  first=$waiter
  queue job --priority -5 -- sh -c 'echo important >> "$0"' "$order"

  assert_equal "$(look job '.waiters | map("\(.priority) \(.label)") | join(", ")')" '-5 null, null usual'
  run dlock status job
  assert_output_contains 'PRIORITY  LABEL'
  let_go
  assert_exits 0 "$waiter"
  assert_exits 0 "$first"
  assert_equal "$(< "$order")" $'important\nusual'
  eventually grep -q '"event":"queued".*"priority":-5' "$BATS_TEST_TMPDIR/events"
  kill "$watcher"
}

@test "--spread lets those behind take the slots while its host has one" {
  hold job --slots 3 --spread
  run dlock run --slots 3 --spread job -- true
  assert_status 75
  assert_output_contains '; this host has a slot already (--spread)'
  queue job --slots 3 --spread -- true
  run unshare --uts sh -c 'echo elsewhere > /proc/sys/kernel/hostname; exec dlock run --slots 3 --spread job -- echo started'
  assert_equal "$status $output" '0 started'
  let_go
  assert_exits 0 "$waiter"
}
