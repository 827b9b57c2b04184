#!/usr/bin/env bats
# Registers of fences, for resources that cannot remember fences themselves.

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

@test "the fence of a run is admitted, that of the previous run is stale, and only users of the store can read them" {
  before=$(dlock run job -- printenv DLOCK_FENCE)
  dlock run job -- sh -c 'dlock fence disk "$DLOCK_FENCE"'

  run dlock fence disk "$before"
  assert_message 76 "disk: fence $before is stale: a newer one was used before"
  run dlock -q fence disk "$before"
  assert_equal "$status $output" '76 '
  assert_equal "$(stat -c %a store/fences)" 600
}

@test "of many concurrent fences the greatest is kept" {
  for fence in $(shuf -i 1-40); do
    dlock fence disk "$fence" 3>&- || true &
  done
  wait

  run dlock fence disk 39
  assert_status 76
  dlock fence disk 40
}
