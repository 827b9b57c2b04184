#!/usr/bin/env bats
# The models of dlock's protocols (tests/model) within larger bounds than in tests/bats/models.bats.
# They take some minutes and up to four gigabytes.

setup() { load ../bats/support; }

@test "each model keeps every promise, however far one looks" {
  local bounds
  for bounds in "lease -DFAULTS=3" "lease -DRUNS=3 -DFAULTS=2" "quorum -DFAULTS=2" \
    "quorum -DFAULTS=1 -DHELD=1 -DREQUESTS=1" "quorum -DFAULTS=1 -DSERVERS=5 -DREQUESTS=1" "row -DSTEPS=2" "row -DFAULTS=1"; do
    # shellcheck disable=SC2086  # the words of a row
    MEMORY=4000 run "$DLOCK_SOURCE/tests/model/check" $bounds
    assert_status 0 || return 1
  done
}
