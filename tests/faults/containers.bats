#!/usr/bin/env bats
# Containers that share a directory but not the boot id or the clocks that its state depends
# on, as with systemd-nspawn and LXC, or with time_namespaces(7).
# shellcheck disable=SC2154  # hold sets holder

setup() {
  load ../bats/support
  load locks
  use_private_store
  store=${DLOCK_STORE#local:}
}

teardown() { kill_leftovers; }

# After this, `inside` runs a command as in a container with another boot id.
use_other_boot_id() {
  use_private_mounts
  echo 11111111-2222-3333-4444-555555555555 > "$BATS_TEST_TMPDIR/boot_id"
  inside mount --bind "$BATS_TEST_TMPDIR/boot_id" /proc/sys/kernel/random/boot_id
}

# Runs a command whose CLOCK_BOOTTIME is two hours ahead.
with_other_clock() { unshare --time --boottime 7200 "$@"; }

assert_refused() {
  assert_status 78
  assert_one_line
  assert_output_contains "$store is in use under another boot id or in another time namespace"
}

@test "a lock that is held under another boot id is not granted, and its run continues" {
  hold job
  use_other_boot_id

  run inside dlock run job -- echo started
  assert_refused
  run inside dlock run another -- echo started
  assert_refused

  is_held job
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(look job .last_run.exit_code)" 0
}

@test "a directory without held locks is used under another boot id" {
  dlock run job -- sh -c 'exit 3' || true
  use_other_boot_id

  run inside dlock run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "a detached lease is not granted under another boot id" {
  dlock acquire -t 1h job
  use_other_boot_id

  run inside dlock run job -- echo started

  assert_refused
}

@test "a lease is not granted again under a clock that runs ahead" {
  dlock acquire -t 1h job

  run with_other_clock dlock acquire job

  assert_refused
}

@test "a limit does not admit more under a clock that runs ahead" {
  dlock limit api 1/1h

  run with_other_clock dlock limit api 1/1h

  assert_refused
}

@test "a limit whose period is over does not block another clock" {
  dlock limit api 1/1ms

  eventually with_other_clock dlock limit api 1/1ms
}

@test "fences continue above those that were granted under another clock" {
  dlock run job -- true
  fence=$(jq -s 'map(.fence) | max' "$store/runs.jsonl")

  # shellcheck disable=SC2016
  run with_other_clock dlock run job -- sh -c 'echo "$DLOCK_FENCE"'

  assert_status 0
  ((output > fence))
}
