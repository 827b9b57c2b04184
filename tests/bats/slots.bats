#!/usr/bin/env bats
# --slots: a lock that several runs can hold at a time.
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load support
  load ../faults/locks
  use_private_store
  order=$BATS_TEST_TMPDIR/order
  released=$BATS_TEST_TMPDIR/released
  began=$BATS_TEST_TMPDIR/began
}

teardown() { kill_leftovers; }

# shellcheck disable=SC2016
{
  noting=(sh -c 'echo "$2" >> "$1"' -)
  timing=(bash -c 'clock_into "$1"' -)
}

started() { grep -qsx "$1" "$order"; }

slots_of() { look "$1" '[.holders[].slot] | sort | join(" ")'; }

@test "three runs hold a lock with three slots together" {
  for _ in 1 2 3; do hold pool -n 3; done

  assert_equal "$(look pool '.holders | length')" 3
}

@test "a run is refused with 75 if all slots are held" {
  hold pool -n 2
  hold pool -n 2

  run dlock run -n 2 pool -- true

  assert_status 75
  assert_one_line
}

@test "each holder has a slot of its own, counted from 0" {
  for _ in 1 2 3; do hold pool -n 3; done

  assert_equal "$(slots_of pool)" '0 1 2'
}

@test "DLOCK_SLOT tells the command its slot" {
  hold pool -n 2

  # shellcheck disable=SC2016
  run dlock run -n 2 pool -- sh -c 'echo "slot $DLOCK_SLOT"'

  assert_equal "$output" 'slot 1'
}

@test "DLOCK_SLOT of a lock without slots is 0" {
  # shellcheck disable=SC2016
  run dlock run job -- sh -c 'echo "slot $DLOCK_SLOT"'

  assert_equal "$output" 'slot 0'
}

@test "a slot that became free is granted to the next run" {
  hold pool -n 3
  hold pool -n 3
  middle=$holder
  hold pool -n 3
  let_go "$middle"
  assert_exits 0 "$middle"

  # shellcheck disable=SC2016
  run dlock run -n 3 pool -- sh -c 'echo "slot $DLOCK_SLOT"'

  assert_equal "$output" 'slot 1'
}

@test "each holder of a slot has a greater fence than the one before" {
  for _ in 1 2 3; do hold pool -n 3; done

  look pool '.holders[].fence' > "$BATS_TEST_TMPDIR/fences"

  sort -c -u -n "$BATS_TEST_TMPDIR/fences"
}

@test "status shows how many slots there are and how many are free" {
  hold pool -n 3

  assert_equal "$(look pool '"\(.slots) \(.free)"')" '3 2'
}

@test "a different --slots is refused while the lock is in use, and both numbers are named" {
  hold pool -n 3

  run dlock run -n 2 pool -- echo started

  assert_status 78
  assert_one_line
  [[ $output == *3* && $output == *2* ]]
}

@test "a different --slots is refused even with --wait" {
  hold pool -n 3

  run timeout 10 dlock run -w 5s pool -- echo started

  assert_status 78
}

@test "a free lock accepts any number of slots" {
  dlock run -n 3 pool -- true

  run dlock run -n 5 pool -- echo started

  assert_equal "$status $output" '0 started'
}

@test "-n 1 is the same as no --slots" {
  hold job

  run dlock run -n 1 job -- true

  assert_status 75
}

@test "a shared run is refused while a run with slots holds the lock" {
  hold pool -n 2

  run dlock run -s pool -- echo started

  ((status == 75 || status == 78))
  refute_output_contains started
}

@test "waiters get slots in the order of arrival" {
  hold pool -n 2
  hold pool -n 2
  for number in 1 2 3 4; do queue pool -n 2 -- "${noting[@]}" "$order" "$number"; done

  let_go

  eventually started 4
  assert_equal "$(tr -d '\n' < "$order")" 1234
}

@test "two waiters run together if two slots become free" {
  hold pool -n 2
  first=$holder
  hold pool -n 2
  meet=$BATS_TEST_TMPDIR/meet
  # Each of them ends only when the other one has started.
  # shellcheck disable=SC2016
  meeting=(sh -c 'touch "$1/$2"; until [ -e "$1/$3" ]; do sleep 0.01; done' - "$meet")
  mkdir "$meet"
  queue pool -n 2 -- "${meeting[@]}" a b
  a=$waiter
  queue pool -n 2 -- "${meeting[@]}" b a
  b=$waiter

  let_go "$first"
  let_go

  assert_exits 0 "$a"
  assert_exits 0 "$b"
}

@test "a killed holder's slot goes at once to the first waiter" {
  hold pool -n 2
  hold pool -n 2
  queue pool -n 2 -- "${timing[@]}" "$began"

  clock_into "$released"
  kill -KILL "$holder" "$command"

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 500
}

@test "the slots of two killed holders go at once to two waiters" {
  hold pool -n 2
  victims=("$holder" "$command")
  hold pool -n 2
  victims+=("$holder" "$command")
  # The first waiter keeps its slot, so the second one needs the other.
  queue pool -n 2 -- sleep 600
  queue pool -n 2 -- "${timing[@]}" "$began"

  clock_into "$released"
  kill -KILL "${victims[@]}"

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 1000
}

@test "a second waiter that became the first one notices when a holder is killed later" {
  hold pool -n 2
  first=$holder
  hold pool -n 2
  queue pool -n 2 -- sleep 600
  queue pool -n 2 -- "${timing[@]}" "$began"
  let_go "$first"
  assert_exits 0 "$first"
  eventually is_alone_in_queue

  clock_into "$released"
  kill -KILL "$holder" "$command"

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 500
}

is_alone_in_queue() { [[ $(look pool '.waiters | length') == 1 ]]; }

@test "of twenty runs of a lock with four slots, at most four run at a time" {
  mkdir "$BATS_TEST_TMPDIR/inside"
  # A run creates a directory for its slot, which fails if another run is in the same slot.
  # shellcheck disable=SC2016
  alone='mkdir "$1/$DLOCK_SLOT" && [ "$DLOCK_SLOT" -lt 4 ] && sleep 0.01 &&
    rmdir "$1/$DLOCK_SLOT" && echo fine >> "$2"'

  for _ in {1..20}; do
    dlock run -w 60s -n 4 pool -- \
      sh -c "$alone" - "$BATS_TEST_TMPDIR/inside" "$order" 3>&- &
  done

  EVENTUALLY_MS=30000 eventually all_fine
}

all_fine() { [[ $(grep -cx fine "$order") == 20 ]]; }
