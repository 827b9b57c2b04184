#!/usr/bin/env bats
# --shared: readers, which hold a lock together, and writers, which exclude them.
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

@test "readers hold the lock together" {
  hold book -s
  hold book -s
  hold book --shared

  assert_equal "$(look book '"\(.mode) \(.holders | length)"')" 'shared 3'
}

@test "a writer is refused while a reader holds the lock" {
  hold book -s

  run dlock run book -- echo started

  assert_status 75
  refute_output_contains started
}

@test "a reader is refused while a writer holds the lock" {
  hold book

  run dlock run -s book -- echo started

  assert_status 75
  refute_output_contains started
}

@test "a writer waits until the last reader has released the lock" {
  hold book -s
  first=$holder
  hold book -s
  queue book -- "${timing[@]}" "$began"
  let_go "$first"
  assert_exits 0 "$first"
  [[ ! -e $began ]]

  clock_into "$released"
  let_go

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 1000
}

@test "a waiting writer holds off later readers" {
  hold book -s
  queue book -- true

  run dlock run -s book -- echo started

  assert_status 75
  refute_output_contains started
}

@test "a writer gets its turn although new readers keep coming" {
  for _ in 1 2 3; do
    # shellcheck disable=SC2016
    while :; do dlock run -w 60s -s book -- sleep 0.05; done 3>&- &
  done
  eventually is_held book

  run timeout 20 dlock run -w 10s book -- echo started

  assert_equal "$status $output" '0 started'
}

@test "readers that waited behind a writer run together after it" {
  hold book
  meet=$BATS_TEST_TMPDIR/meet
  # Each of them ends only when the other one has started.
  # shellcheck disable=SC2016
  meeting=(sh -c 'touch "$1/$2"; until [ -e "$1/$3" ]; do sleep 0.01; done' - "$meet")
  mkdir "$meet"
  queue book -s -- "${meeting[@]}" a b
  a=$waiter
  queue book -s -- "${meeting[@]}" b a
  b=$waiter

  let_go

  assert_exits 0 "$a"
  assert_exits 0 "$b"
}

@test "a waiting reader, writer and reader run in this order" {
  hold book
  queue book -s -- "${noting[@]}" "$order" reader
  queue book -- "${noting[@]}" "$order" writer
  queue book -s -- "${noting[@]}" "$order" 'later reader'

  let_go

  eventually started 'later reader'
  assert_equal "$(paste -s -d ' ' "$order")" 'reader writer later reader'
}

@test "a reader gets the lock once a waiting writer has given up" {
  hold book -s
  dlock run -w 100ms book -- true || true

  run dlock run -s book -- echo started

  assert_equal "$status $output" '0 started'
}

@test "a writer that was killed while waiting does not hold off readers" {
  hold book -s
  queue book -- true
  kill -KILL "$waiter"
  assert_exits 137 "$waiter"

  run dlock run -s book -- echo started

  assert_equal "$status $output" '0 started'
}

@test "readers behind a waiting writer run at once if the writer is killed" {
  hold book -s
  queue book -- true
  writer=$waiter
  queue book -s -- "${timing[@]}" "$began"

  clock_into "$released"
  kill -KILL "$writer"

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 1000
}

@test "a waiting writer runs at once if the reader is killed" {
  hold book -s
  queue book -- "${timing[@]}" "$began"

  clock_into "$released"
  kill -KILL "$holder" "$command"

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 500
}

@test "the fence of each reader is greater than that of the one before" {
  hold book -s
  first=$(look book '.holders[0].fence')

  # shellcheck disable=SC2016
  run dlock run -s book -- sh -c 'echo "$DLOCK_FENCE"'

  ((output > first))
}

@test "the slot of a reader is 0" {
  hold book -s

  # shellcheck disable=SC2016
  run dlock run -s book -- sh -c 'echo "slot $DLOCK_SLOT"'

  assert_equal "$output" 'slot 0'
}

@test "--shared and --slots together are a usage error" {
  run dlock run -s -n 2 book -- echo started

  assert_status 64
  assert_one_line
}
