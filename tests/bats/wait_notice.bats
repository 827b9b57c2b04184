#!/usr/bin/env bats
# What is said while a verb waits for a lock, for a turn, or for a store that cannot be
# reached: on a terminal one line that moves, with -v lines for those who have none.
# shellcheck disable=SC2154  # hold sets holder

setup() {
  load support
  load ../faults/locks
  load ../faults/redis
  said=$BATS_TEST_TMPDIR/said
  screen=$BATS_TEST_TMPDIR/screen
  if [[ $BATS_TEST_DESCRIPTION == *server* ]]; then use_redis_store; else use_private_store; fi
}

teardown() {
  [[ -z ${redis_root:-} ]] || stop_redis
  kill_leftovers
}

# Runs dlock on a terminal of its own; what stands there gets into the file `screen`.
on_terminal() {  # <columns> <dlock's arguments>
  : > "$screen"
  SHELL=/bin/sh TERM=xterm env --default-signal \
    script -qec "stty cols $1; exec dlock $2" /dev/null < /dev/null > "$screen" 3>&- &
  terminal=$!
}

# One line for each state of the line on the terminal.
states() { tr -d '\n' < "$screen" | sed 's/\r/\n/g; s/\x1b\[K//g' | grep .; }
shows() { states | grep -qE "$1"; }
stands() { states | tail -n 1 | grep -qE "$1"; }

# Has the server gone until something is so; what it knew it knows again afterwards.
restart_with_its_data() {  # <command>...
  redis SAVE
  stop_redis
  eventually "$@"
  start_redis
}

with_v() {  # <dlock's arguments>...
  dlock -v "$@" 2> "$said" < /dev/null 3>&- &
  waiter=$!
}

says() { grep -qE "$1" "$said"; }
times_said() { grep -cE "$1" "$said" || true; }

# --- On a terminal ---

@test "a wait for a lock shows the time left" {
  hold job

  on_terminal 200 'run -w 90s job -- true'

  eventually shows 'held by .*; position 1 of 1; 1m30s left$'
  eventually shows 'held by .*; position 1 of 1; 1m2[0-9]s left$'
}

@test "a wait for ever has no time left" {
  hold job

  on_terminal 200 'run -w forever job -- true'

  eventually shows 'held by .*; position 1 of 1$'
}

@test "a wait for a server that is not there shows why, and the time left" {
  stop_redis

  on_terminal 200 'run -w 90s job -- true'

  eventually shows "job: cannot reach $redis_socket: .*; trying again; 1m30s left\$"
  eventually shows 'trying again; 1m2[0-9]s left$'
}

@test "a wait for a server that is not there shows why where it has no end" {
  stop_redis

  on_terminal 200 'acquire -w forever job'

  eventually shows "job: cannot reach $redis_socket: .*; trying again\$"
}

@test "where the server is lost during the wait the line says so, and goes on when it is back" {
  hold job
  on_terminal 200 'run -w 90s job -- true'
  eventually shows 'position 1 of 1'

  restart_with_its_data shows 'redis.*; trying again; '

  eventually stands 'position 1 of 1'
}

@test "a server that is not there takes one line of a narrow terminal" {
  stop_redis

  on_terminal 50 'run -w 900ms job -- true'

  eventually shows 'trying again'
  eventually has_ended "$terminal"
  states | grep -v left | grep 'trying again' | while read -r state; do ((${#state} < 50)); done
}

@test "a wait for a turn counts down" {
  dlock limit api 1/1h

  on_terminal 100 'limit -w 2h api 1/1h'

  eventually shows 'waiting: turn in (1h|59m5[0-9]s); (2h|1h59m) left$'
  eventually shows 'waiting: turn in 59m5[0-7]s; '
}

@test "a turn on a server that is not there is waited for with the reason" {
  stop_redis

  on_terminal 200 'limit -w 90s api 1/1h'

  eventually shows "api: cannot reach $redis_socket: .*; trying again; 1m30s left\$"
}

@test "a cached output that somebody makes is waited for with who does" {
  dlock cache report -- sleep 60 &
  eventually lock_is_held cache:report

  on_terminal 200 'cache -w 90s report -- true'

  eventually shows 'cache:report: waiting: held by .*; position 1 of 1; 1m30s left$'
}

lock_is_held() { dlock status "$1" > /dev/null; }

# --- With -v ---

@test "-v says without a terminal whom a run waits for, once" {
  hold job

  with_v run -w 90s job -- true

  eventually says 'dlock: job: waiting: held by .*\(pid [0-9]+, sh .*\) for .*; position 1 of 1; 1m30s left$'
  queue job true # which has the other one look again
  let_go
  assert_exits 0 "$waiter"
  assert_equal "$(times_said 'waiting:')" 1
}

@test "-v says it for acquire, too" {
  hold job

  with_v acquire -w 90s job

  eventually says 'dlock: job: waiting: held by .*; position 1 of 1; 1m30s left$'
}

@test "-v says that a server is not there once, and when it is what is waited for now" {
  hold job
  with_v run -w 90s job -- true
  eventually says 'waiting: held by'

  # Whether it was seen to close the connection or could not be reached any more.
  restart_with_its_data says 'redis.*; trying again; 1m[0-9]+s left$'

  eventually says_again 'waiting'

  assert_equal "$(times_said 'trying again')" 1
  assert_equal "$(times_said 'waiting')" 2
}

says_again() { (($(times_said "$1") == 2)); }

@test "without -v nothing is said where there is no terminal" {
  hold job
  dlock run -w forever job -- true 2> "$said" < /dev/null 3>&- &
  waiter=$!
  eventually waits_in_line

  let_go

  assert_exits 0 "$waiter"
  assert_equal "$(< "$said")" ''
}

waits_in_line() { [[ $(look job '.waiters | length') == 1 ]]; }
