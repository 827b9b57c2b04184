#!/usr/bin/env bats
# A process that is stopped while it changes the embedded store keeps the others from
# changing it. They say so in time, and nothing is lost.
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load ../bats/support
  load locks
  use_private_store
  # LeakSanitizer does not work under strace.
  export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
  began=$BATS_TEST_TMPDIR/began
  dlock run any -- true
}

teardown() { kill_leftovers; }

# Starts a dlock that stops inside its first transaction. Sets $stopped to its pid.
stop_inside() {  # <system call done on the database in there> <dlock's arguments>...
  local strace log=$BATS_TEST_TMPDIR/strace.log
  strace -o "$log" -P "$(echo "$BATS_TEST_TMPDIR"/store/state-*)" \
    -e "trace=$1" -e "inject=$1:signal=STOP:when=1" dlock "${@:2}" 2> /dev/null 3>&- &
  strace=$!
  # Not by its state: under strace it is stopped for a moment at every system call.
  eventually grep -q '^--- stopped by SIGSTOP' "$log"
  stopped=$(pgrep -P "$strace")
}

# Runs dlock with a small budget for the store, and measures how long it takes.
run_briefly() {
  local begin
  begin=$(now_ms)
  run timeout 5 dlock --store-timeout 1s "$@"
  took=$(($(now_ms) - begin))
}

goes_on() { kill -CONT "$stopped"; }

@test "run says which stopped process keeps the store busy, and exits with 69" {
  stop_inside pwrite64 run job -- true

  run_briefly run another -- echo started

  assert_status 69
  assert_one_line
  assert_output_contains "process $stopped (stopped"
}

@test "run gives up on a stopped process when the store's time is over" {
  stop_inside pwrite64 run job -- true

  run_briefly run another -- echo started

  assert_between "$took" 1000 1900
}

@test "run -w gives up on a stopped process when the wait is over" {
  stop_inside pwrite64 run job -- true

  run_briefly run -w 1s another -- echo started

  assert_status 69
  assert_between "$took" 1000 2900
}

@test "status says which stopped process keeps the store busy, and exits with 69" {
  stop_inside pwrite64 run job -- true

  run_briefly status job

  assert_status 69
  assert_one_line
  assert_output_contains "process $stopped (stopped"
  assert_between "$took" 1000 1900
}

@test "list says which stopped process keeps the store busy, and exits with 69" {
  stop_inside pwrite64 run job -- true

  run_briefly list

  assert_status 69
  assert_one_line
  assert_output_contains "process $stopped (stopped"
  assert_between "$took" 1000 1900
}

@test "a stopped reader is named as well" {
  stop_inside pread64 status job

  run_briefly run another -- echo started

  assert_status 69
  assert_output_contains "process $stopped (stopped"
}

@test "a stopped reader does not keep others from reading" {
  hold job
  stop_inside pread64 status job

  run_briefly status job

  assert_status 0
}

@test "status answers as soon as a stopped process goes on" {
  stop_inside pwrite64 run job -- true
  timeout 20 dlock --store-timeout 15s status another 3>&- &
  eventually is_at_the_gate $!

  goes_on

  assert_exits 1 $!
}

@test "list answers as soon as a stopped process goes on" {
  stop_inside pwrite64 run job -- true
  timeout 20 dlock --store-timeout 15s list 3>&- &
  eventually is_at_the_gate $!

  goes_on

  assert_exits 0 $!
}

# True once the dlock that a `timeout` runs has found the gate shut.
is_at_the_gate() { has_timer "$(pgrep -P "$1")"; }

# One who waits sets a timer.
has_timer() { grep -qs '^ticks: ' "/proc/$1"/fdinfo/*; }

@test "run -w starts its command as soon as a stopped process goes on" {
  stop_inside pwrite64 run job -- true
  timeout 20 dlock --store-timeout 15s run -w 15s another -- touch "$began" 3>&- &
  eventually is_at_the_gate $!

  goes_on

  assert_exits 0 $!
  [[ -e $began ]]
}

@test "the stopped process itself runs its command when it goes on" {
  stop_inside pwrite64 run job -- touch "$began"

  goes_on

  eventually test -e "$began"
}

@test "the command of a run that finds the store busy is noted when it is free again" {
  # Between the grant and the start there is time for somebody else at the store.
  # shellcheck disable=SC2016
  strace -o /dev/null -e trace=vfork -e inject=vfork:delay_enter=1500000 \
    dlock run job -- sh -c 'echo $$ > "$1.new"; mv "$1.new" "$1"; exec sleep 60' - "$began" 2> /dev/null 3>&- &
  eventually is_held job
  holder=$(look job '.holders[0].pid')
  stop_inside pwrite64 run another -- true
  eventually test -s "$began"
  goes_on
  eventually is_free another

  kill -KILL "$holder"
  eventually has_ended "$holder"

  # By that name it is ended.
  assert_equal "$(look job '.holders[0].pid')" "$(< "$began")"
}

@test "the stopped process runs its command though the others have given up" {
  stop_inside pwrite64 run job -- touch "$began"
  run_briefly run job -- true

  goes_on

  eventually test -e "$began"
}

@test "two are never let in because one was stopped on its way" {
  stop_inside pwrite64 run job -- sleep 600
  run_briefly run -w 100ms job -- echo started
  refute_output_contains started

  goes_on

  eventually is_held job
  run dlock run job -- echo started
  assert_status 75
}

@test "who waits for the store ends at once when it is told to" {
  stop_inside pwrite64 run job -- true
  dlock --store-timeout 30s run -w 30s another -- echo started 3>&- &
  waiter=$!
  eventually has_timer "$waiter"

  begin=$(now_ms)
  kill -TERM "$waiter"

  assert_exits 143 "$waiter"
  assert_between $(($(now_ms) - begin)) 0 1000
}

@test "a command that ends while the store is kept busy decides the exit code" {
  hold job --store-timeout 1s
  stop_inside pwrite64 run another -- true

  let_go

  assert_exits 0 "$holder"
}

@test "a lock that could not be given back is free all the same" {
  hold job --store-timeout 1s
  stop_inside pwrite64 run another -- true
  let_go
  assert_exits 0 "$holder"

  goes_on

  eventually is_free job
}

@test "a lock that could not be given back is said to be" {
  # shellcheck disable=SC2016
  dlock run job --store-timeout 1s -- sh -c 'until [ -e "$0" ]; do sleep 0.01; done' \
    "$began" 2> "$BATS_TEST_TMPDIR/messages" 3>&- &
  holder=$!
  eventually is_held job
  stop_inside pwrite64 run another -- true

  touch "$began"

  assert_exits 0 "$holder"
  output=$(< "$BATS_TEST_TMPDIR/messages")
  assert_one_line
  assert_output_contains 'cannot give the lock back'
}

@test "a process that is killed in its transaction holds up nobody" {
  stop_inside pwrite64 run job -- true
  kill -KILL "$stopped"

  run_briefly run job -- echo started

  assert_equal "$status $output" '0 started'
  assert_between "$took" 0 900
}

@test "a lock that is held is not lost by another process that is killed in there" {
  hold job
  stop_inside pwrite64 run another -- true
  kill -KILL "$stopped"

  run_briefly run job -- echo started

  assert_status 75
}
