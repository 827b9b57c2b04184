#!/usr/bin/env bats
# A minute (or DLOCK_CHAOS_SECONDS) of tests/chaos on each store, and tests of its verdict.
# tests/chaos/README.md describes longer runs and the bugs that they have to find.

setup() {
  load ../bats/support
  history=$BATS_TEST_TMPDIR/history
  : "${DLOCK_CHAOS_SEED:=1}" "${DLOCK_CHAOS_SECONDS:=60}"
}

chaos() {  # <option>...
  "$DLOCK_SOURCE/tests/chaos/chaos" --seed "$DLOCK_CHAOS_SEED" --history "$history" \
    --dlock "$DLOCK_BIN" "$@" 3>&-
}

@test "the verdict detects every forbidden outcome" {
  /usr/bin/python3 "$DLOCK_SOURCE/tests/chaos/verdict_test.py"
  /usr/bin/python3 "$DLOCK_SOURCE/tests/chaos/leases_test.py"
}

@test "links between two servers break, and other links do not" {
  /usr/bin/python3 "$DLOCK_SOURCE/tests/chaos/links_test.py"
}

@test "locks keep their promises in chaos on each kind of store" {
  for store in local redis sentinel cluster quorum3 quorum5 etcd1 etcd3 postgres postgres_sync; do
    echo "on $store"
    chaos --store "$store" --seconds "$DLOCK_CHAOS_SECONDS"
  done
}

@test "a dlock that excludes no other is detected" {
  local free=$BATS_TEST_TMPDIR/dlock status=0
  cat > "$free" << END
#!/bin/bash
# Runs "VERB --store URL ..." with another store.
exec "$DLOCK_BIN" "\$1" --store none: "\${@:4}"
END
  chmod +x "$free"

  DLOCK_BIN=$free chaos --store local --seconds 20 --stop-at-first > "$BATS_TEST_TMPDIR/said" || status=$?

  [[ $status == 1 ]]
  grep -q 'overlap: runs .* both held' "$BATS_TEST_TMPDIR/said"
}

@test "chaos that tried nothing does not pass" {
  local status=0

  chaos --store local --seconds 1 --dlock "$BATS_TEST_TMPDIR/missing" 2> "$BATS_TEST_TMPDIR/said" || status=$?

  [[ $status == 2 ]]
  grep -q 'No such file' "$BATS_TEST_TMPDIR/said"
}
