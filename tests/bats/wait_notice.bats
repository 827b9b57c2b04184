#!/usr/bin/env bats
# What a verb prints while it waits for a lock, for a turn, or for a store that cannot be
# reached: on a terminal one line that is updated; without a terminal, lines with -v.
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

# Runs dlock on its own terminal, whose output is written to the file `screen`.
on_terminal() {  # <columns> <dlock's arguments>
  : > "$screen"
  SHELL=/bin/sh TERM=xterm env --default-signal \
    script -qec "stty cols $1; exec dlock $2" /dev/null < /dev/null > "$screen" 3>&- &
  terminal=$!
}

# Prints one line for each state of the line on the terminal.
states() { tr -d '\n' < "$screen" | sed 's/\r/\n/g; s/\x1b\[K//g' | grep .; }
shows() { states | grep -qE "$1"; }
shows_now() { states | tail -n 1 | grep -qE "$1"; }

# Stops the server until a command succeeds, and then starts it again with its data.
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

@test "the time left is shown however narrow the terminal is" {
  # shellcheck disable=SC2016
  dlock run --label 'release 2026-11-26 of the shop' job -- \
    sh -c 'touch "$1"; exec sleep 60' - "$BATS_TEST_TMPDIR/started" 3>&- &
  eventually test -e "$BATS_TEST_TMPDIR/started"
  local columns
  for columns in 80 60 40 24; do
    on_terminal "$columns" 'run -w 90s job -- true'
    eventually shows '1m2[0-9]s left$'
    kill "$terminal"
    [[ $columns != 80 ]] || shows '\(rel.*; position 1 of 1; 1m2'
    : > "$screen"
  done
}

@test "a run that does not wait says on a terminal, and only there, how to queue" {
  hold job

  on_terminal 200 'run job -- true'
  eventually shows 'held by .* \(--wait queues\)$'

  run dlock run job -- true
  assert_status 75
  refute_output_contains queues
}

@test "a wait of less than a second does not show a second left" {
  hold job

  on_terminal 200 'run -w 900ms job -- true'

  eventually shows '; position 1 of 1; [1-9]00ms left$'
}

@test "a wait without a limit shows no time left" {
  hold job

  on_terminal 200 'run -w forever job -- true'

  eventually shows 'held by .*; position 1 of 1$'
}

@test "a wait for an unreachable server shows the reason and the time left" {
  stop_redis

  on_terminal 200 'run -w 90s job -- true'

  eventually shows "job: cannot reach $redis_socket: .*; trying again; 1m30s left\$"
  eventually shows 'trying again; 1m2[0-9]s left$'
}

@test "a wait without a limit for an unreachable server shows the reason" {
  stop_redis

  on_terminal 200 'acquire -w forever job'

  eventually shows "job: cannot reach $redis_socket: .*; trying again\$"
}

@test "the line says when the server becomes unreachable, and shows the position when it is back" {
  hold job
  on_terminal 200 'run -w 90s job -- true'
  eventually shows 'position 1 of 1'

  restart_with_its_data shows 'redis.*; trying again; '

  eventually shows_now 'position 1 of 1'
}

@test "the reason for an unreachable server fits into one line of a narrow terminal" {
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

@test "a wait for a turn on an unreachable server shows the reason" {
  stop_redis

  on_terminal 200 'limit -w 90s api 1/1h'

  eventually shows "api: cannot reach $redis_socket: .*; trying again; 1m30s left\$"
}

@test "a wait for cached output shows who is computing it" {
  dlock cache report -- sleep 60 &
  eventually lock_is_held cache:report

  on_terminal 200 'cache -w 90s report -- true'

  eventually shows 'cache:report: waiting: held by .*; position 1 of 1; 1m30s left$'
}

lock_is_held() { dlock status "$1" > /dev/null; }

# --- With -v ---

@test "without a terminal, -v says once which holder a run waits for" {
  hold job

  with_v run -w 90s job -- true

  eventually says 'dlock: job: waiting: held by .*\(pid [0-9]+, sh .*\) for .*; position 1 of 1; 1m30s left$'
  queue job true # makes the first waiter check again
  let_go
  assert_exits 0 "$waiter"
  assert_equal "$(times_said 'waiting:')" 1
}

@test "without a terminal, -v says which holder acquire waits for" {
  hold job

  with_v acquire -w 90s job

  eventually says 'dlock: job: waiting: held by .*; position 1 of 1; 1m30s left$'
}

@test "-v says once that the server is unreachable, and names the holder again when it is back" {
  hold job
  with_v run -w 90s job -- true
  eventually says 'waiting: held by'

  # The reason may be a closed connection or that the server cannot be reached.
  restart_with_its_data says 'redis.*; trying again; 1m[0-9]+s left$'

  eventually says_again 'waiting'

  assert_equal "$(times_said 'trying again')" 1
  assert_equal "$(times_said 'waiting')" 2
}

says_again() { (($(times_said "$1") == 2)); }

@test "without -v and without a terminal, a wait prints nothing" {
  hold job
  dlock run -w forever job -- true 2> "$said" < /dev/null 3>&- &
  waiter=$!
  eventually waits_in_line

  let_go

  assert_exits 0 "$waiter"
  assert_equal "$(< "$said")" ''
}

waits_in_line() { [[ $(look job '.waiters | length') == 1 ]]; }
