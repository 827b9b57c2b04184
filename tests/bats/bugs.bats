#!/usr/bin/env bats
# The bugs in tests/chaos/bugs, which the chaos tests have to find, must fit the source.

setup() { load support; }

@test "each bug patch of the chaos tests still applies to the source" {
  for bug in "$DLOCK_SOURCE"/tests/chaos/bugs/*.patch; do
    run patch --dry-run -d "$DLOCK_SOURCE" -p1 -s -f -i "$bug"
    assert_status 0 || { echo "$bug" >&2; return 1; }
  done
}
