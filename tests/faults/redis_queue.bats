#!/usr/bin/env bats
# Those who wait on a server get their turn also if nobody gives the lock back: at the end of
# its lease, and three seconds later for each waiter before them that was killed.
# shellcheck disable=SC2016  # commands are shells that expand for themselves
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load ../bats/support
  load locks
  load redis
  use_redis_store
  began=$BATS_TEST_TMPDIR/began
  order=$BATS_TEST_TMPDIR/order
}

teardown() {
  stop_redis
  kill_leftovers
}

noting=(sh -c 'echo "$2" >> "$1"' -)

# Kills a dlock with all its processes, so that nobody is left to release.
kill_all_of() {  # <pid of dlock>
  local pids=("$1") pid
  for ((i = 0; i < ${#pids[@]}; i++)); do
    for pid in $(pgrep -P "${pids[i]}"); do pids+=("$pid"); done
  done
  kill -STOP "${pids[@]}"
  kill -KILL "${pids[@]}"
}

lines_in() { [[ -e $2 ]] && (($(wc -l < "$2") == $1)); }  # <number> <file>

# Takes part in a row of detached leases that nobody gives back.
take_turn() {  # <dlock's options>...
  (dlock acquire job -t 500ms -w 30s "$@" > "$BATS_TEST_TMPDIR/token.$BASHPID" && echo >> "$order") 3>&- &
}

# Asserts that the row was over in this time, which is less than it would take if one of them
# slept until its place has to be kept.
assert_all_had_turns() {  # <number> <ms>
  local start
  start=$(now_ms)
  EVENTUALLY_MS=30000 eventually lines_in "$1" "$order"
  assert_between "$(($(now_ms) - start))" 0 "$2"
}

@test "detached leases that run out follow one another" {
  for _ in 1 2 3 4 5 6; do take_turn; done

  assert_all_had_turns 6 9000
}

@test "so do shared ones and others, in turns" {
  for _ in 1 2; do
    take_turn --shared
    take_turn --shared
    take_turn
  done

  assert_all_had_turns 6 9000
}

@test "so do those in slots" {
  for _ in 1 2 3 4 5 6; do take_turn --slots 2; done

  assert_all_had_turns 6 8000
}

@test "two waiters that were killed cost three seconds each" {
  hold job
  queue job -- true
  first=$waiter
  queue job -- true
  second=$waiter
  queue job -- "${noting[@]}" "$order" third
  kill_all_of "$first"
  kill_all_of "$second"

  let_go

  EVENTUALLY_MS=9000 eventually lines_in 1 "$order"
}

@test "three waiters that were killed cost three seconds each" {
  hold job
  killed=()
  for _ in 1 2 3; do
    queue job -- true
    killed+=("$waiter")
  done
  queue job -- "${noting[@]}" "$order" fourth
  for waiter in "${killed[@]}"; do kill_all_of "$waiter"; done

  let_go

  EVENTUALLY_MS=12500 eventually lines_in 1 "$order"
}

@test "each of two holders that are killed costs the rest of its lease" {
  hold job --ttl 2s
  queue job --ttl 2s -- sh -c 'echo > "$1"; sleep 60' - "$began"
  second=$waiter
  queue job -- "${noting[@]}" "$order" third
  queue job -- "${noting[@]}" "$order" fourth
  kill_all_of "$holder"
  eventually test -e "$began"

  kill_all_of "$second"

  EVENTUALLY_MS=4500 eventually lines_in 2 "$order"
  assert_equal "$(paste -sd ' ' "$order")" 'third fourth'
}

@test "where the two in front leave the queue, a holder that is killed costs the rest of its lease" {
  hold job --ttl 1s
  queue job -- true
  leaving=("$waiter")
  queue job -- true
  leaving+=("$waiter")
  queue job -- "${noting[@]}" "$order" third
  kill -TERM "${leaving[@]}"
  assert_exits 143 "${leaving[0]}"
  assert_exits 143 "${leaving[1]}"

  kill_all_of "$holder"

  EVENTUALLY_MS=3000 eventually lines_in 1 "$order"
}
