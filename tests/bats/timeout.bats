#!/usr/bin/env bats
# --timeout: commands that take too long are killed with their whole process tree.
# shellcheck disable=SC2016  # the commands' own variables

setup() {
  load support
  load ../faults/locks
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  make_tree
}

teardown() { kill_leftovers; }

refute() { ! "$@"; }

# Creates `tree`, a command whose children and grandchildren write their pids to the file
# `pids`. Some of them are daemons, and some ignore SIGTERM.
make_tree() {
  cat > tree << 'END'
#!/bin/bash
lives() { echo "$BASHPID" >> pids; while :; do sleep 0.1; done; }
deaf() { trap '' TERM; lives; }
export -f lives deaf
(lives) &
(deaf) &
(deaf & deaf) &
(setsid bash -c 'trap "" TERM; (deaf) & lives' < /dev/null > /dev/null 2>&1 &)
trap '' TERM
until (($(wc -l < pids) == 6)); do sleep 0.01; done
touch grown
lives
END
  chmod +x tree
}

# Runs dlock. Sets $status to its exit code, $output to its output, and $took to how many
# milliseconds it took.
run_timed() {
  local begin
  begin=$(now_ms)
  status=0
  timeout -s KILL 30 dlock "$@" > output 2>&1 < /dev/null 3>&- || status=$?
  took=$(($(now_ms) - begin))
  output=$(< output)
}

has_waited_for() {  # <name> <milliseconds>
  (($(look "$1" '.waiters[0].waiting_ms // 0') >= $2))
}

all_dead() {
  local pid
  for pid in $(< pids); do has_ended "$pid" || return; done
}

@test "a command that takes longer than --timeout is killed with 124" {
  run_timed run --timeout 200ms job -- sleep 60

  assert_status 124
}

@test "-v says what stopped a command that timed out, and how it ended" {
  local stopped='dlock: job: stopped after 200ms by SIGTERM'
  loop='echo > ready; while :; do sleep 0.1; done'

  run dlock run -v --timeout 200ms job -- sleep 60
  assert_status 124
  grep -qxF -- "$stopped; the command was killed by SIGTERM" <<< "$output"

  run dlock run -v --timeout 2s -k 300ms job -- sh -c "trap '' TERM; $loop"
  assert_status 124
  grep -qxF -- "${stopped/200ms/2.0s}, then SIGKILL after 300ms; the command was killed by SIGKILL" <<< "$output"

  run dlock run -v --timeout 2s job -- sh -c "trap 'exit 3' TERM; $loop"
  assert_status 124
  grep -qxF -- "${stopped/200ms/2.0s}; the command exited with 3" <<< "$output"
}

@test "--timeout stops the command neither early nor late" {
  run_timed run --timeout 500ms job -- sleep 60

  assert_between "$took" 500 2500
}

@test "--timeout takes plain numbers as seconds" {
  run_timed run --timeout 0.2 job -- sleep 60

  assert_status 124
}

@test "a time-out is reported in one line" {
  run_timed run --timeout 100ms job -- sleep 60

  assert_one_line
}

@test "a time-out is reported even with -q" {
  run_timed run -q --timeout 100ms job -- sleep 60

  assert_one_line
}

@test "the lock is free after a time-out" {
  run_timed run --timeout 100ms job -- sleep 60

  is_free job
}

@test "a command that ends in time keeps its exit code" {
  run_timed run --timeout 20s job -- sh -c 'exit 5'

  assert_equal "$status $output" '5 '
}

@test "dlock exits as soon as a command ends in time" {
  run_timed run --timeout 20s job -- true

  assert_between "$took" 0 5000
}

@test "a command that times out gets SIGTERM" {
  run_timed run --timeout 2s job -- bash -c 'trap "echo asked; exit" TERM; while :; do sleep 0.1; done'

  assert_output_contains asked
}

@test "dlock exits with 124 even if the command exits with 0 on SIGTERM" {
  run_timed run --timeout 200ms job -- bash -c 'trap "exit 0" TERM; while :; do sleep 0.1; done'

  assert_status 124
}

@test "dlock does not wait for --kill-after if the command exits on SIGTERM" {
  run_timed run --timeout 200ms --kill-after 20s job -- bash -c 'trap "exit 0" TERM; while :; do sleep 0.1; done'

  assert_between "$took" 200 10000
}

@test "a command that ignores SIGTERM is killed after --kill-after" {
  run_timed run --timeout 2s --kill-after 300ms job -- sh -c 'trap "" TERM; while :; do sleep 0.1; done'

  assert_status 124
  assert_between "$took" 2300 10000
}

@test "a stopped command is killed as well" {
  run_timed run --timeout 200ms --kill-after 20s job -- sh -c 'kill -STOP $$; sleep 60'

  assert_status 124
  assert_between "$took" 200 10000
}

@test "the whole process tree is killed, including daemons and processes that ignore SIGTERM" {
  run_timed run --timeout 4s --kill-after 200ms job -- ./tree

  test -e grown
  all_dead
  no_leftovers
}

@test "children that ignore SIGTERM are killed even if their parent exits on SIGTERM" {
  run_timed run --timeout 2s --kill-after 300ms job -- bash -c '
    (trap "" TERM; echo "$BASHPID" > pids; while :; do sleep 0.1; done) &
    wait'

  assert_status 124
  all_dead
}

@test "on a terminal, the whole process tree is killed as well" {
  SHELL=/bin/sh TERM=dumb timeout -s KILL 30 script -qec 'exec dlock run --timeout 4s --kill-after 200ms job -- ./tree' \
    /dev/null < /dev/null > screen 3>&- || status=$?

  assert_equal "$status" 124
  test -e grown
  all_dead
}

@test "on a terminal, other commands of the same shell are spared" {
  SHELL=/bin/sh TERM=dumb timeout -s KILL 30 script -qec 'sleep 60 & echo $! > other
    dlock run --timeout 200ms --kill-after 100ms job -- sh -c "sleep 60 & sleep 60"
    kill -0 $(cat other) && touch spared; kill $(cat other)' /dev/null < /dev/null > screen 3>&- || true

  test -e spared
}

@test "a shell that times out does not start its next command" {
  run_timed run --timeout 200ms job -- sh -c 'sleep 60; touch went_on'

  refute test -e went_on
}

@test "the lock is held until the whole process tree has ended" {
  dlock run --timeout 2s --kill-after 60s job -- bash -c '
    trap "touch asked" TERM
    while :; do sleep 0.1; done' 3>&- &
  eventually test -e asked

  never_within 300 is_free job
}

@test "--timeout counts from the start of the command, not from the start of the wait" {
  hold job
  dlock run -w 60s --timeout 1s job -- true 3>&- &
  waiter=$!
  eventually has_waited_for job 1200

  let_go

  assert_exits 0 "$waiter"
}

@test "the time-out ignores processes that outlive a command that ended in time" {
  run_timed run --timeout 20s job -- sh -c 'sleep 60 > /dev/null 2>&1 < /dev/null & exit 5'

  assert_status 5
  assert_between "$took" 0 5000
}

@test "a command that exits on a forwarded SIGTERM before the time-out keeps its exit code" {
  env --default-signal setsid dlock run --timeout 20s job -- bash -c '
    trap "exit 9" TERM; touch started; while :; do sleep 0.1; done' 3>&- &
  eventually test -e started

  kill -TERM $!

  assert_exits 9 $!
}

@test "status shows that a run timed out" {
  run_timed run --timeout 100ms job -- sleep 60

  run dlock status --json job

  assert_equal "$(json '.last_run.outcome')" timeout
}

# --- Which processes get SIGTERM ---

# Runs the script on standard input for a while, on its own terminal or without one,
# and sets $output to what it prints. Processes that SIGTERM does not reach run for a minute.
run_briefly() {  # <terminal or none> [<duration>]
  cat > script
  local run="exec dlock run --timeout ${2:-300ms} --kill-after 60s job -- bash ./script"
  status=0
  if [[ $1 == terminal ]]; then
    TERM=dumb SHELL=/bin/sh timeout -s KILL 40 script -qec "$run" /dev/null
  else
    timeout -s KILL 40 setsid -w sh -c "$run"
  fi < /dev/null > printed 2>&1 3>&- || status=$?
  output=$(tr -d '\r' < printed)
}

@test "SIGTERM also reaches processes whose parents it ends first" {
  mkfifo silence
  for place in none terminal none terminal; do
    # A bash that starts can lose a signal, so they must all be up before it comes.
    run_briefly "$place" 2500ms << 'END'
daemon() { trap 'echo told; exit' TERM; echo up; while :; do read -rt 0.02 <> silence; done; }
export -f daemon
for i in {1..20}; do bash -c 'setsid bash -c daemon & exec sleep 60' & done
wait
END

    assert_status 124
    assert_equal "$place $(grep -c told printed)" "$place $(grep -c up printed)"
  done
}

@test "SIGTERM also reaches processes that are started at that moment" {
  for place in none terminal none terminal; do
    run_briefly "$place" << 'END'
for i in 1 2 3; do (while :; do setsid sleep 60 & sleep 60 & sleep 0.01; done) & done
wait
END

    assert_status 124
  done
}

@test "SIGTERM reaches no process twice" {
  for place in none terminal none terminal; do
    # A bash that starts can lose a signal, so they must all be up before it comes.
    run_briefly "$place" 2500ms << 'END'
told_once() {
  exec perl -MTime::HiRes=sleep -e '
    $| = 1; $SIG{TERM} = sub { print "told\n"; $end ||= 20 }; print "up\n";
    while (!$end || --$end) { sleep 0.02 }'
}
export -f told_once
told_once & (told_once) & setsid bash -c told_once & (setsid bash -c told_once &)
wait
END

    # On a slow machine not all four are up in time; SIGTERM ends those that are not.
    grep -q up printed
    assert_equal "$place $(grep -c told printed)" "$place $(grep -c up printed)"
  done
}

@test "processes that a command starts on SIGTERM to clean up do not get SIGTERM" {
  for place in none terminal none terminal; do
    # On a slow machine a bash may not have set its trap in time; the next one gets longer.
    for time in 300ms 1200ms 5s; do
      run_briefly "$place" "$time" << 'END'
trap 'for i in {1..10}; do sh -c "sleep 0.01; echo clean"; setsid sh -c "sleep 0.01; echo clean"; done; exit' TERM
echo up
for i in {1..200}; do sleep 60 & done
while :; do sleep 0.1; done
END
      ! grep -q up printed || break
    done

    assert_equal "$place $(grep -c clean printed)" "$place 20"
  done
}
