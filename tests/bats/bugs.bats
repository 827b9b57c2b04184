#!/usr/bin/env bats
# What chaos has to find (tests/chaos/bugs) has to follow the source.

setup() { load support; }

@test "each bug that chaos is to find can still be put in" {
  for bug in "$DLOCK_SOURCE"/tests/chaos/bugs/*.patch; do
    run patch --dry-run -d "$DLOCK_SOURCE" -p1 -s -f -i "$bug"
    assert_status 0 || { echo "$bug" >&2; return 1; }
  done
}
