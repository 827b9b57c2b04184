#!/usr/bin/env bats
# dlock without what AddressSanitizer itself cannot do without. These run on the builds
# that have none.
# shellcheck disable=SC2154  # use_private_mounts sets mounts

setup() {
  load ../bats/support
  load locks
  use_private_store
}

teardown() { kill_leftovers; }

# Asserts that `run` left either the command's output alone, or a refusal in one line.
assert_worked_or_refused() {
  [[ $status == 0 && $output == started ]] && return
  [[ $status == @(69|78|125) ]] && assert_one_line
}

@test "without /proc dlock says in one line what it lacks" {
  use_private_mounts
  inside mount -t tmpfs none /proc

  run timeout 10 nsenter --mount="/proc/$mounts/ns/mnt" \
    dlock --store local:/mnt/store run job -- echo started

  assert_status 78
  assert_one_line
  assert_output_contains /proc
}

@test "with too little memory to map the database dlock says so in one line" {
  run timeout 10 prlimit --as=300000000 dlock run job -- echo started

  assert_worked_or_refused
}
