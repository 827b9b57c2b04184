#!/usr/bin/env bats
# The store none: no lock at all, for development and for switching locking off.
# shellcheck disable=SC2016  # commands are shells that expand for themselves

setup() {
  load support
  load ../faults/locks
  use_private_store
  export DLOCK_STORE=none:
  report=$BATS_TEST_TMPDIR/report
}

teardown() { kill_leftovers; }

@test "everybody gets the lock at once" {
  hold job
  hold job

  run dlock run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "nobody has to wait" {
  hold job

  run timeout 5 dlock run -w forever job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "slots and shared holders are all the same" {
  hold job -n 2

  run dlock run -n 3 job -- echo started
  assert_equal "$status $output" '0 started'
  run dlock run -s job -- echo started
  assert_equal "$status $output" '0 started'
}

@test "the lock is free while it is held" {
  hold job

  run dlock status --json job

  assert_status 1
  assert_equal "$(json '"\(.state) \(.holders | length) \(.last_run)"')" 'free 0 null'
}

@test "there is nothing to list" {
  hold job

  run dlock list --json

  assert_equal "$output" '[]'
}

@test "-v says once that it excludes nobody" {
  run dlock -v run job -- true

  assert_equal "$(grep -c none: <<< "$(grep -i exclude <<< "$output")")" 1
}

@test "without -v nothing is said" {
  run dlock run job -- true

  assert_equal "$status $output" '0 '
}

@test "the report says that the run was not protected" {
  dlock run --report "$report" job -- true

  output=$(< "$report")
  assert_equal "$(json '"\(.outcome) \(.protected) \(.store)"')" 'ran false none:'
}

@test "nothing is written anywhere" {
  before=$(find "$HOME" "$BATS_TEST_TMPDIR" | sort)

  dlock run job -- true

  assert_equal "$(find "$HOME" "$BATS_TEST_TMPDIR" | sort)" "$before"
}

@test "the command has a name, a fence, a slot and the store" {
  run dlock run job -- sh -c \
    'echo "$DLOCK_NAME $DLOCK_SLOT $DLOCK_STORE"; [ "$DLOCK_FENCE" -gt 0 ]'

  assert_equal "$status $output" '0 job 0 none:'
}

@test "the fence of a later run is greater" {
  first=$(dlock run job -- sh -c 'echo "$DLOCK_FENCE"')

  run dlock run job -- sh -c 'echo "$DLOCK_FENCE"'

  ((output > first))
}

@test "a run within a run of the same lock is no error" {
  run dlock run job -- dlock run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "exit codes are those of the command" {
  run dlock run job -- sh -c 'exit 3'

  assert_status 3
}

@test "--timeout ends the command" {
  run timeout 10 dlock run --timeout 50ms job -- sleep 600

  assert_status 124
}

@test "the command inherits no descriptor of dlock's" {
  run dlock run job -- sh -c 'ls /proc/$$/fd | sort -n | tail -n 1'

  ((output < 256))
}
