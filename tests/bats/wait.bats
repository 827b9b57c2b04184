#!/usr/bin/env bats
# Waiting for a lock: the order of waiters, what a wait costs, and how it ends.

setup() {
  load support
  use_private_store
  released=$BATS_TEST_TMPDIR/released
}

# A command of waiters that records when it started.
timing=(bash -c 'clock_into "$1"' -)

started() { grep -qsx "$1" "$order"; }

sockets=$BATS_TEST_TMPDIR/store/wake-
no_sockets() { ! compgen -G "$sockets*" > /dev/null; }

# Sets `sleeps` to how often a process went to sleep.
count_sleeps() {  # <pid>
  local key value
  while read -r key value; do
    [[ $key != voluntary_ctxt_switches: ]] || sleeps=$value
  done < "/proc/$1/status"
}

slept_more_than() {  # <pid> <number>
  local sleeps
  count_sleeps "$1"
  ((sleeps > $2))
}

is_quiet() {
  local before sleeps
  count_sleeps "$1"
  before=$sleeps
  pause 0.1
  count_sleeps "$1"
  ((sleeps == before))
}

# Attempts at 0, 0.1, 0.3, 0.7 and 1.5 s, and the next one would be at 3.1 s. What ends the whole is a timer that is
# set to one store timeout after the wait; the pause has one that is set to its end exactly.
@test "a pause between two attempts to reach a store ends with the wait" {
  local moments
  cd "$BATS_TEST_TMPDIR"
  # A sanitizer cannot look for leaks in what strace runs.
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 run strace -f -o trace -e trace=timerfd_settime dlock --store "redis+unix:$PWD/none" --store-timeout 20ms run -w 2300ms job true
  assert_status 69
  moments=$(sed -nE 's/.*ABSTIME.*it_value=\{tv_sec=([0-9]+), tv_nsec=([0-9]+)\}.*/\1 \2/p' trace |
    while read -r seconds nanoseconds; do echo $((seconds * 1000000000 + nanoseconds)); done | sort -n)
  grep -qx $(($(tail -n 1 <<< "$moments") - 20000000)) <<< "$moments" || { echo "$moments" >&2; return 1; }
}

@test "a wait for a server that is never reached, which a signal ends, warns of no late request" {
  local url
  for url in "redis+unix:$PWD/none" redis://127.0.0.1:1 "postgres:///x?host=$PWD" postgres://127.0.0.1:1/x etcd://127.0.0.1:1 \
    redis+sentinel://127.0.0.1:1/m redis+cluster://127.0.0.1:1 redis+quorum://127.0.0.1:1,127.0.0.2:1,127.0.0.3:1; do
    # Bash empties it only in the new process, which forgets a signal that it gets before it is dlock.
    rm -f "$said"
    dlock --store "$url" run -w 60s job -- touch "$ran" > "$said" 2>&1 3>&- &
    waiter=$!
    eventually grep -q 'trying again' "$said"
    kill -TERM "$waiter"
    assert_exits 143 "$waiter"
    # Its only line is that of the wait.
    assert_equal "$(grep -cv 'trying again' "$said")" 0 || { cat "$said" >&2; return 1; }
  done
}

@test "a released lock goes from waiter to waiter at once, past a killed one, and no socket is left" {
  hold job
  queue job "${noting[@]}" "$order" killed
  killed=$waiter
  # If it dies while the one behind it asks, that one asks again by a timer of 0.3 ms.
  queue job -- true
  for _ in 1 2; do queue_without_timers job -- true; done
  queue_without_timers job touch "$began"
  kill -KILL "$killed"

  let_go

  assert_exits 0 "$waiter"
  [[ -e $began && ! -e $order ]]
  no_sockets
}

# Starts a waiter in another PID namespace, as in a container, and stops it. Its pid means
# nothing here, so no process can see that it is stopped.
queue_stopped_elsewhere() {  # <name>
  needs_root
  unshare --pid --fork --kill-child dlock run --wait 60s "$1" -- true 3>&- &
  eventually somebody_waits "$1"
  kill -STOP "$(pgrep -P $!)"
}

@test "a stopped waiter in another container delays the next one by the three seconds of its promise" {
  hold job
  queue_stopped_elsewhere job
  queue job "${timing[@]}" "$began"

  clock_into "$released"
  let_go

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 2500 60000
}

@test "a waiter that is stopped at its turn is not overtaken without --wait, and gets the lock once it is continued" {
  hold job
  queue job "${noting[@]}" "$order" stopped
  stopped=$waiter
  kill -STOP "$stopped"
  let_go
  eventually is_free job
  run dlock run job -- true
  assert_status 75
  assert_output_contains 'promised'
  queue job "${noting[@]}" "$order" next
  eventually started next

  kill -CONT "$stopped"

  eventually started stopped
}

@test "a waiter whose wake-up was lost gets the lock all the same" {
  hold job
  queue job touch "$began"
  rm "$sockets"*

  let_go

  eventually test -e "$began"
}

@test "a wait that ends without the lock exits with 75 in time, says in one line who holds it, and leaves no socket" {
  hold job

  begin=$(now_ms)
  run dlock run -w 300ms job -- true

  assert_status 75
  (($(now_ms) - begin >= 300))
  assert_one_line
  assert_output_contains "dlock: job: not acquired within 300ms: held by $(id -un)@$(uname -n) (pid $holder, sh -c "
  no_sockets
}

@test "a waiter in the first place wakes at most about once a second, and those behind the second sleep" {
  hold job
  queue job true
  first=$waiter
  for _ in 2 3; do queue job true; done
  eventually is_quiet "$first"
  eventually is_quiet "$waiter"
  local sleeps of_first begin seconds
  begin=$(now_ms)
  count_sleeps "$first"
  of_first=$sleeps
  count_sleeps "$waiter"

  never_within 2000 slept_more_than "$waiter" "$sleeps"

  # The test may have been held up as well.
  count_sleeps "$first"
  seconds=$((($(now_ms) - begin) / 1000))
  assert_between $((sleeps - of_first)) 1 $((seconds + 2))
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
  queue job touch "$began"
  eventually is_quiet "$waiter"
  disturb

  never_within 1000 false  # the first wake-ups are free
  local sleeps begin before
  for pid in "$waiter" "$holder"; do
    begin=$(now_ms)
    count_sleeps "$pid"
    before=$sleeps
    never_within 2000 false
    count_sleeps "$pid"
    assert_between $((sleeps - before)) 0 $((($(now_ms) - begin) / 5))
  done

  let_go
  assert_exits 0 "$waiter"
}

@test "a more important run goes first, and status and watch show its priority" {
  hold job
  : > "$BATS_TEST_TMPDIR/said"
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
  needs_root
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
