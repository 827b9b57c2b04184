#!/usr/bin/env bats
# What a verb prints while it waits for a lock, for a turn, or for a store that cannot be
# reached: on a terminal one line that is updated; without a terminal, lines with -v.

setup() {
  load support
  load ../faults/redis
  screen=$BATS_TEST_TMPDIR/screen
  if [[ $BATS_TEST_DESCRIPTION == *server* ]]; then use_redis_store; else use_private_store; fi
}

# Runs dlock on its own terminal, whose output is written to the file $screen.
on_terminal() {  # <columns> <dlock's arguments>
  : > "$screen"
  SHELL=/bin/sh TERM=${kind_of_terminal:-xterm} env --default-signal \
    script -qec "tty > $BATS_TEST_TMPDIR/tty; stty cols $1; exec dlock $2" /dev/null < /dev/null > "$screen" 3>&- &
  terminal=$!
}

# Sets `states` to what the line on the terminal said, one state after the other.
find_states() {
  local text
  text=$(< "$screen")
  text=${text//[$'\n']/}
  mapfile -td $'\r' states <<< "${text//$'\e[K'/}"
  states=("${states[@]%$'\n'}")
}

shows() {  # <regular expression>
  local state states
  find_states
  for state in "${states[@]}"; do [[ ! $state =~ $1 ]] || return 0; done
  return 1
}

shows_now() {  # <regular expression>
  local states
  find_states
  [[ ${states[-1]} =~ $1 ]]
}

# Asserts that no state was wider than so many columns, and that there was one.
assert_widest() {  # <columns>
  local LC_ALL=C.UTF-8 state states widest=0
  find_states
  for state in "${states[@]}"; do ((${#state} <= widest)) || widest=${#state}; done
  assert_between "$widest" 1 "$1"
}

# Stops the server until a command succeeds, and then starts it again with its data.
restart_with_its_data() {  # <command>...
  redis SAVE
  stop_redis
  eventually "$@"
  start_redis
}

with_v() {  # <dlock's arguments>...
  : > "$said"
  dlock -v "$@" 2> "$said" < /dev/null 3>&- &
  waiter=$!
}

says() { [[ $(< "$said") =~ $1 ]]; }
times_said() { grep -cE "$1" "$said" || true; }
said_times() { (($(times_said "$2") == $1)); }

# --- On a terminal ---

@test "the line of a wait shows who holds the lock, for how long, the place and the time left, and is updated and erased" {
  hold job
  queue job sleep 60
  local next=$waiter first=$holder
  queue job true
  local given_up=$waiter
  queue job true

  on_terminal 200 'run -w 90s job -- echo ran'
  eventually shows "^dlock: job: waiting: held by $(id -un)@$(uname -n) \(pid $first, sh -c .* for [0-9.]+m?s; position 4 of 4; (1m30s|1m2[0-9]s) left\$"
  kill -TERM "$given_up"
  eventually shows 'position 3 of 3; 1m2[0-9]s left$'
  let_go
  eventually shows "held by [^ ]* \(pid ${next}[,)].* for [0-9.]+m?s; position 2 of 2"
  eventually shows "held by [^ ]* \(pid ${next}[,)].* for [4-9](\.[0-9]+)?s; position 2 of 2"
  kill -TERM "$next"

  assert_exits 0 "$terminal"
  # It was one line, which is erased.
  assert_equal "$(< "$screen")" "$(tr -d '\n' < "$screen")"
  assert_equal "$(sed 's/.*\r\x1b\[K//' "$screen")" $'ran\r'
}

@test "on a dumb terminal, the line of a wait is overwritten with spaces" {
  hold job
  kind_of_terminal=dumb on_terminal 80 'run -w forever job -- echo ran'
  eventually shows 'position 1'

  let_go

  assert_exits 0 "$terminal"
  [[ $(< "$screen") != *$'\e'* ]]
  [[ $(tr '\r' '|' < "$screen") =~ \|dlock:\ job:\ [^|]+\|\ +\|ran\|$ ]]
}

@test "a wait that ends without the lock leaves one line, and one that does not wait says on a terminal how to queue" {
  # Control characters in the holder's command are escaped.
  dlock run job -- sh -c ': > "$1"; exec sleep 60' $'\e]0;title\a' "$said" 3>&- &
  eventually test -e "$said"

  on_terminal 200 'run -w 900ms job -- true'
  assert_exits 75 "$terminal"
  shows '; position 1 of 1; [1-9]00ms left$'
  assert_equal "$(wc -l < "$screen")" 1
  [[ $(tr -d '\n' < "$screen") =~ $'\r\e[K''dlock: job: not acquired within 900ms: held by '[^$'\e']*$ ]]
  [[ $(< "$screen") != *$'\e]'* ]]

  on_terminal 200 'run job -- true'
  assert_exits 75 "$terminal"
  shows 'held by .* \(--wait queues\)$'
  run dlock run job -- true
  assert_status 75
  refute_output_contains queues
}

@test "no line is shown with -q, nor if the lock is free" {
  hold job
  on_terminal 200 'run -q -w forever job -- echo ran'
  eventually somebody_waits job

  let_go

  assert_exits 0 "$terminal"
  assert_equal "$(< "$screen")" $'ran\r'
  on_terminal 200 'run -w forever job -- echo ran'
  assert_exits 0 "$terminal"
  assert_equal "$(< "$screen")" $'ran\r'
}

@test "the line of a wait is narrower than the terminal, even after a change, and keeps the place or the time left" {
  hold job --label 'release 2026-11-26 of the shop'
  local columns name states
  for columns in 80 60 40 24; do
    on_terminal "$columns" 'run -w 90s job -- true'
    eventually shows '1m2[0-9]s left$'
    [[ $columns != 80 ]] || shows '\(rel.*; position 1 of 1; 1m2'
    assert_widest $((columns - 1))
    kill -KILL "$terminal"
    eventually nobody_waits job
  done

  queue job true
  on_terminal 100 'run -w forever job -- true'
  eventually shows 'held by .*; position 2 of 2$'
  stty -F "$(< "$BATS_TEST_TMPDIR/tty")" cols 44
  kill -TERM "$waiter"
  eventually shows_now '^dlock: job: held (by [^ ]+ )?for [0-9.]+m?s; position 1 of 1$'
  find_states
  assert_between "${#states[-1]}" 1 43
  kill -KILL "$terminal"
  eventually nobody_waits job

  name=$(printf 'n%.0s' {1..200})
  hold "$name"
  for columns in 100 20 3; do
    on_terminal "$columns" "run -w 400ms $name -- true 2>&1 | cat > /dev/null; exit"
    eventually has_ended "$terminal"
    on_terminal "$columns" "run -w forever $name -- true"
    eventually test -s "$screen"
    assert_widest $((columns - 1))
    kill -KILL "$terminal"
    eventually has_ended "$terminal"
  done
}

@test "a wait for an unreachable server shows the reason in one line, and the time left if there is a limit" {
  stop_redis
  local what
  for what in 'run -w 90s job -- true' 'limit -w 90s job 1/1h' 'acquire -w forever job'; do
    on_terminal 200 "$what"
    eventually shows "job: cannot reach $redis_socket: .*; trying again"
    if [[ $what == *90s* ]]; then
      eventually shows "; trying again; (1m30s|1m2[0-9]s) left\$"
    else
      shows "; trying again\$"
    fi
    kill -KILL "$terminal"
    eventually has_ended "$terminal"
  done

  on_terminal 50 'run -w 900ms job -- true'
  eventually has_ended "$terminal"
  shows 'trying again; [1-9]00ms left$'
  local state states
  find_states
  for state in "${states[@]}"; do [[ $state != *'trying again'* ]] || assert_between "${#state}" 1 49; done
}

@test "a waiter says when the server becomes unreachable, and names the holder again when it is back" {
  hold job
  on_terminal 200 'run -w 90s job -- true'
  eventually shows 'position 1 of 1'
  with_v run -w 90s job -- true
  eventually says 'waiting: held by'

  # The reason may be a closed connection or that the server cannot be reached.
  both_say() { shows 'redis.*; trying again; ' && says 'redis.*; trying again; 1m[0-9]+s left'; }
  restart_with_its_data both_say

  eventually shows_now 'position [12] of [12]'
  eventually said_times 2 waiting
  assert_equal "$(times_said 'trying again')" 1
}

@test "a wait for a turn counts down" {
  dlock limit api 1/1h

  on_terminal 100 'limit -w 2h api 1/1h'

  eventually shows 'waiting: turn in (1h|59m5[0-9]s); (2h|1h59m) left$'
  eventually shows 'waiting: turn in 59m5[0-7]s; '
}

@test "a wait for cached output shows who is computing it" {
  dlock cache report -- sleep 60 &
  eventually is_held cache:report

  on_terminal 200 'cache -w 90s report -- true'

  eventually shows 'cache:report: waiting: held by .*; position 1 of 1; (1m30s|1m2[0-9]s) left$'
}

# --- With -v ---

@test "without a terminal, run and acquire say once which holder they wait for, with -v and without it, and nothing with -q" {
  local plain verbose
  hold job
  : > "$said.plain"
  dlock run -w forever job -- true 2> "$said.plain" < /dev/null 3>&- &
  plain=$!
  eventually grep -qxE 'dlock: job: waiting: held by .*\(pid [0-9]+, sh .*\) for .*; position 1 of 1' "$said.plain"
  run dlock -q run -w 300ms job -- true
  assert_equal "$output" ''

  with_v run -w 90s job -- true
  verbose=$waiter
  eventually says 'dlock: job: waiting: held by .*\(pid [0-9]+, sh .*\) for .*; position 2 of 2; (1m30s|1m2[0-9]s) left'
  dlock -v acquire -w 90s job > /dev/null 2> "$said.acquire" < /dev/null 3>&- &
  eventually grep -qE 'dlock: job: waiting: held by .*; position 3 of 3; (1m30s|1m2[0-9]s) left$' "$said.acquire"

  let_go
  assert_exits 0 "$plain"
  assert_exits 0 "$verbose"
  assert_equal "$(times_said 'waiting:')" 1
  assert_equal "$(wc -l < "$said.plain")" 1
}

@test "without a terminal, a run says once that it waits for an unreachable server, and once for whom it waits then" {
  redis SAVE > /dev/null
  stop_redis
  : > "$said"  # a test ends if it reads a file that does not exist yet
  dlock run -w forever job -- true 2> "$said" < /dev/null 3>&- &
  waiter=$!
  eventually says 'dlock: job: cannot reach .*; trying again'
  start_redis
  EVENTUALLY_MS=60000 assert_exits 0 "$waiter"
  assert_equal "$(wc -l < "$said")" 1

  hold job --ttl 60s
  dlock run -w forever job -- touch "$BATS_TEST_TMPDIR/ran" 2> "$said" < /dev/null 3>&- &
  waiter=$!
  eventually says 'waiting: held by'
  restart_with_its_data says 'trying again'
  let_go
  EVENTUALLY_MS=60000 assert_exits 0 "$waiter"
  assert_equal "$(times_said waiting) $(times_said 'trying again')" '1 1'
}

@test "a wait for a turn, and one with -E 0, print nothing without a terminal" {
  dlock limit api 1/1s true
  run dlock limit -w 60s api 1/1s true
  assert_status 0
  assert_equal "$output" ''

  hold job
  run dlock run -E 0 -w 300ms job true
  assert_status 0
  assert_equal "$output" ''
}
