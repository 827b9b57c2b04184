#!/usr/bin/env bats
# Registers of fences, for resources that cannot remember fences themselves.

setup() {
  load support
  load ../faults/locks
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

teardown() { kill_leftovers; }

assert_refused() {  # <exit code> <part of what it says>
  assert_status "$1"
  assert_one_line
  assert_output_contains "$2"
}

assert_stale() {  # <resource> <fence>
  run dlock fence "$1" "$2"
  assert_refused 76 "$1: fence $2 is stale: a newer one was used before"
  run dlock -q fence "$1" "$2"
  assert_equal "$status $output" '76 '
}

@test "a greater fence and the same fence again are admitted, and nothing is printed" {
  for fence in 5 5 6 10 9223372036854775806 9223372036854775807; do
    run dlock fence disk $fence
    assert_equal "$status $output" '0 '
  done
}

@test "a smaller fence is stale" {
  dlock fence disk 10

  assert_stale disk 9
  assert_stale disk 1
  dlock fence disk 10
}

@test "the fence of a run is admitted, and that of the previous run is stale" {
  before=$(dlock run job -- printenv DLOCK_FENCE)
  # shellcheck disable=SC2016
  dlock run job -- sh -c 'dlock fence disk "$DLOCK_FENCE"'

  assert_stale disk "$before"
}

@test "admitted fences are known after a reboot" {
  dlock fence disk 10
  dlock run job true
  rm -r store/state-* store/sessions

  assert_stale disk 9
}

@test "of many concurrent fences the greatest is kept" {
  for fence in $(shuf -i 1-40); do
    dlock fence disk "$fence" 3>&- || true &
  done
  wait

  assert_stale disk 39
  dlock fence disk 40
}

@test "a damaged file of fences exits with 78 and is not changed" {
  dlock fence disk 1000
  cp store/fences saved
  for damage in 's/1000/0999/' 's/disk/disc/' 1d 2d; do
    sed "$damage" saved > store/fences

    run dlock fence disk 1
    assert_refused 78 "$PWD/store/fences"
    run dlock fence disk 2000
    assert_refused 78 "$PWD/store/fences"
    assert_equal "$(< store/fences)" "$(sed "$damage" saved)"
  done
  : > store/fences
  run dlock fence disk 1
  assert_refused 78 "$PWD/store/fences"
}

@test "only users of the store can read and write its fences" {
  dlock fence disk 1

  assert_equal "$(stat -c %a store/fences)" 600
}
