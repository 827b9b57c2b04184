#!/usr/bin/env bats
# A short run of tests/chaos on each store, and whether its verdict can see at all. For
# longer ones, and for bugs that it is to find, see tests/chaos/README.md.

setup() {
  load ../bats/support
  history=$BATS_TEST_TMPDIR/history
  : "${DLOCK_CHAOS_SEED:=1}"
}

teardown() { kill_leftovers; }

chaos() {  # <option>...
  "$DLOCK_SOURCE/tests/chaos/chaos" --seed "$DLOCK_CHAOS_SEED" --history "$history" \
    --dlock "$DLOCK_BIN" "$@" 3>&-
}

@test "the verdict sees all that must not be" {
  python3 "$DLOCK_SOURCE/tests/chaos/verdict_test.py"
}

@test "locks of local: keep their promises in chaos" {
  chaos --store local --seconds 15
}

@test "locks on a server keep their promises in chaos" {
  chaos --store redis --seconds 15
}

@test "locks on servers with sentinels keep their promises in chaos" {
  chaos --store sentinel --seconds 15
}

@test "locks in a cluster keep their promises in chaos" {
  chaos --store cluster --seconds 15
}

@test "a dlock that excludes nobody is found out" {
  local free=$BATS_TEST_TMPDIR/dlock status=0
  cat > "$free" << END
#!/bin/bash
# "VERB --store URL ..." with another store
exec "$DLOCK_BIN" "\$1" --store none: "\${@:4}"
END
  chmod +x "$free"

  DLOCK_BIN=$free chaos --store local --seconds 20 --stop-at-first > "$BATS_TEST_TMPDIR/said" || status=$?

  [[ $status == 1 ]]
  grep -q 'overlap: runs .* both held' "$BATS_TEST_TMPDIR/said"
}

@test "chaos that could try nothing does not pass" {
  local status=0

  chaos --store local --seconds 1 --dlock "$BATS_TEST_TMPDIR/missing" 2> "$BATS_TEST_TMPDIR/said" || status=$?

  [[ $status == 2 ]]
  grep -q 'No such file' "$BATS_TEST_TMPDIR/said"
}
