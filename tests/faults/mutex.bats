#!/usr/bin/env bats
# A process that is stopped while it changes a lock of the embedded store prevents others
# from changing that lock. They say so in time, and nothing is lost. Those who only read, or
# change another lock, do not notice.

setup() {
  load ../bats/support
  use_private_store
  # LeakSanitizer does not work under strace.
  export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
  # An existing file is changed in place.
  dlock run job -- true
}

# Starts a dlock that stops in the middle of a change of a lock, after the Nth system call of
# a kind: it reads the lock's file with pread64, writes the value with the first pwrite64, and
# makes it take effect with the second. Sets $stopped to its pid.
stop_inside() {  # <system call>[:<N>] <dlock's arguments>...
  local strace call=${1%:*} n=1 log=$BATS_TEST_TMPDIR/strace.log
  [[ $1 != *:* ]] || n=${1#*:}
  # The strace of an earlier dlock may still write to its log.
  rm -f "$log"
  strace -o "$log" -e "trace=$call" -e "inject=$call:signal=STOP:when=$n" \
    dlock "${@:2}" > /dev/null 2>&1 3>&- &
  strace=$!
  # Its state does not tell: under strace it stops for a moment at every system call.
  eventually grep -q '^--- stopped by SIGSTOP' "$log"
  stopped=$(pgrep -P "$strace")
}

# Runs dlock with a short store timeout, and measures how long it takes.
run_briefly() {
  local begin
  begin=$(now_ms)
  run timeout 60 dlock --store-timeout 1s "$@"
  took=$(($(now_ms) - begin))
}

# Runs dlock, and asserts that it does not wait for the stopped process.
run_at_once() { run timeout 60 dlock --store-timeout 2m "$@"; }

continue_stopped() { kill -CONT "$stopped"; }

assert_names_the_stopped() {
  assert_message 69 "process $stopped (stopped"
}

@test "a stopped process keeps only its lock from being changed, is named after the store timeout, and goes on" {
  stop_inside pwrite64 run job -- touch "$began"

  run_briefly run job -- echo started
  assert_names_the_stopped
  assert_between "$took" 1000 15000
  run_briefly run -w 1s job -- echo started
  assert_names_the_stopped
  assert_between "$took" 1000 15000
  run_at_once run another -- echo started
  assert_equal "$status $output" '0 started'
  dlock watch --json > "$began.watched" 2> /dev/null 3>&- &
  eventually hears_of another

  continue_stopped
  eventually test -e "$began"
}

hears_of() {  # <name>
  dlock run "$1" -- true
  grep -q "\"$1\"" "$began.watched"
}

looks=('status --json job' list 'history job' doctor)

@test "readers get an answer at once while a process is stopped in a change, and its death delays no other" {
  local at look
  for at in pread64:1 pwrite64:{1,2}; do
    stop_inside "$at" run job -- true
    for look in "${looks[@]}"; do
      # shellcheck disable=SC2086
      run_at_once $look
      [[ $status == @(0|1) ]] || { echo "$at, $look:" >&2; assert_status 0; }
      # It shows the change when it takes effect, and not before.
      [[ $look != status* || $at != pwrite64:1 ]] || assert_equal "$(json .state)" free
      [[ $look != status* || $at != pwrite64:2 ]] ||
        assert_equal "$(json '.state, .holders[].pid' | xargs)" "held $stopped"
    done
    kill -KILL "$stopped"

    run_at_once run job -- echo started
    assert_equal "$at $status $output" "$at 0 started"
  done
}

@test "a lock that is held is not lost by another process that is stopped or killed in its change" {
  local at
  hold job
  for at in pread64:1 pwrite64:{1,2}; do
    # A claim that waits changes the queue.
    stop_inside "$at" run -w 60s job -- true
    run_at_once check job --fence "$(look job '.holders[0].fence')"
    assert_status 0
    kill -KILL "$stopped"

    run_at_once run job -- echo started
    assert_status 75
  done
}

@test "a process that is stopped in the change of a limit delays only that limit, and one that reads a lock delays none" {
  dlock limit api 5/1h
  stop_inside pwrite64 limit api 5/1h
  run_at_once run job -- echo started
  assert_equal "$status $output" '0 started'
  run_at_once limit other 5/1h
  assert_status 0
  run_briefly limit api 5/1h
  assert_status 69
  assert_output_contains "process $stopped (stopped"

  stop_inside pread64 status job
  run_at_once run job -- echo started
  assert_equal "$status $output" '0 started'
}

@test "a process that is stopped while it creates the store is named when the wait for it times out, and delays none when killed" {
  rm -rf "$BATS_TEST_TMPDIR"/store/state-*
  stop_inside '?renameat' run job -- true
  run_briefly run another -- echo started
  assert_names_the_stopped
  assert_between "$took" 1000 15000

  kill -KILL "$stopped"
  run_at_once run job -- echo started
  assert_equal "$status $output" '0 started'
  assert_equal "$(find "$BATS_TEST_TMPDIR/store" -name '*.new')" ''
}

# True once the dlock that a `timeout` runs has found the mutex locked.
is_at_the_gate() { has_timer "$(pgrep -P "$1")"; }

# A waiter sets a timer.
has_timer() { grep -qs '^ticks: ' "/proc/$1"/fdinfo/*; }

@test "a waiter for a stopped process ends at once on a signal, and starts its command as soon as that continues" {
  stop_inside pwrite64 run job -- true
  dlock --store-timeout 3m run -w 3m job -- echo started 3>&- &
  waiter=$!
  eventually has_timer "$waiter"
  kill -TERM "$waiter"
  assert_exits 143 "$waiter"

  timeout 60 dlock --store-timeout 15s run -w 15s job -- touch "$began" 3>&- &
  eventually is_at_the_gate $!
  continue_stopped
  assert_exits 0 $!
  [[ -e $began ]]
}

@test "a command that starts while its lock cannot be changed is recorded afterwards" {
  # Between the grant and the start, another process can use the store.
  strace -o /dev/null -e trace=vfork -e inject=vfork:delay_enter=1500000 \
    dlock run job -- sh -c 'echo $$ > "$1.new"; mv "$1.new" "$1"; exec sleep 60' - "$began" 2> /dev/null 3>&- &
  eventually is_held job
  holder=$(look job '.holders[0].pid')
  stop_inside pread64 run job -- true
  eventually test -s "$began"
  eventually has_timer "$holder"
  continue_stopped
  eventually has_ended "$stopped"

  kill -KILL "$holder"
  eventually has_ended "$holder"

  # The test ends it by that name.
  assert_equal "$(look job '.holders[0].pid')" "$(< "$began")"
}

@test "a command that ends while its lock cannot be changed decides the exit code, and the lock is free afterwards" {
  hold job --store-timeout 1s 2> "$BATS_TEST_TMPDIR/messages"
  stop_inside pwrite64 run -w 60s job -- true

  let_go

  assert_exits 0 "$holder"
  output=$(< "$BATS_TEST_TMPDIR/messages")
  assert_one_line
  assert_output_contains 'cannot release the lock'
  continue_stopped
  eventually is_free job
}
