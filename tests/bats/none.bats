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

@test "every run gets the lock at once" {
  hold job
  hold job

  run dlock run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "no run has to wait" {
  hold job

  run timeout 5 dlock run -w forever job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "different slots and modes do not conflict" {
  hold job -n 2

  run dlock run -n 3 job -- echo started
  assert_equal "$status $output" '0 started'
  run dlock run -s job -- echo started
  assert_equal "$status $output" '0 started'
}

@test "status shows a lock as free while a run holds it" {
  hold job

  run dlock status --json job

  assert_status 1
  assert_equal "$(json '"\(.state) \(.holders | length) \(.last_run)"')" 'free 0 null'
}

@test "list shows no locks" {
  hold job

  run dlock list --json

  assert_equal "$output" '[]'
}

@test "-v says once that the store excludes nobody" {
  run dlock -v run job -- true

  assert_equal "$(grep -c none: <<< "$(grep -i exclude <<< "$output")")" 1
}

@test "a run without -v prints nothing" {
  run dlock run job -- true

  assert_equal "$status $output" '0 '
}

@test "the report says that the run was not protected" {
  dlock run --report "$report" job -- true

  output=$(< "$report")
  assert_equal "$(json '"\(.outcome) \(.protected) \(.store)"')" 'ran false none:'
}

@test "a run writes no files" {
  before=$(find "$HOME" "$BATS_TEST_TMPDIR" | sort)

  dlock run job -- true

  assert_equal "$(find "$HOME" "$BATS_TEST_TMPDIR" | sort)" "$before"
}

@test "the command's environment has the name, the fence, the slot and the store" {
  run dlock run job -- sh -c \
    'echo "$DLOCK_NAME $DLOCK_SLOT $DLOCK_STORE"; [ "$DLOCK_FENCE" -gt 0 ]'

  assert_equal "$status $output" '0 job 0 none:'
}

@test "the fence of a later run is greater" {
  first=$(dlock run job -- sh -c 'echo "$DLOCK_FENCE"')

  run dlock run job -- sh -c 'echo "$DLOCK_FENCE"'

  ((output > first))
}

@test "a run inside a run of the same lock starts" {
  run dlock run job -- dlock run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "the exit code is that of the command" {
  run dlock run job -- sh -c 'exit 3'

  assert_status 3
}

@test "--timeout ends the command" {
  run timeout 10 dlock run --timeout 50ms job -- sleep 600

  assert_status 124
}

@test "the command inherits no descriptors from dlock" {
  run dlock run job -- sh -c 'ls /proc/$$/fd | sort -n | tail -n 1'

  ((output < 256))
}
