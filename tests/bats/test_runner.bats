#!/usr/bin/env bats
# tests/run, which everybody waits for, and sometimes no longer.

setup() {
  load support
  use_private_store
}

teardown() { kill_leftovers; }

# Replaces what tests/run builds and tests with: a ctest that starts processes which leave its
# group and session, ignore SIGTERM, or run in the background.
use_fake_ctest() {
  local name
  for name in cmake apt-get sudo; do
    printf '#!/bin/sh\nexit 0\n' > "$BATS_TEST_TMPDIR/bin/$name"
  done
  cat > "$BATS_TEST_TMPDIR/bin/ctest" << 'END'
#!/bin/bash
sleep "100.$$" &
setsid sleep "101.$$" &
(trap '' TERM HUP INT QUIT; exec sleep "102.$$") &
echo $$ > "$CTEST_PID"
exec setsid --wait bash -c 'trap "" TERM HUP INT QUIT; sleep "103.$0" & sleep "104.$0"' $$
END
  export CTEST_PID=$BATS_TEST_TMPDIR/ctest.pid
  chmod +x "$BATS_TEST_TMPDIR"/bin/*
}

sleepers() { pgrep -f "^sleep 10[0-4][.]$(< "$CTEST_PID")\$" | wc -l; }
have_started() { (($(sleepers) == 5)); }

@test "tests/run that a signal ends stops everything below it" {
  local signal
  use_fake_ctest
  for signal in INT TERM HUP QUIT; do
    rm -f "$CTEST_PID"
    env --default-signal "$DLOCK_SOURCE/tests/run" --fast -R nothing > "$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
    runner=$!
    EVENTUALLY_MS=60000 eventually have_started

    kill -s "$signal" "$runner"

    EVENTUALLY_MS=30000 eventually has_ended "$runner"
    assert_exits $((128 + $(kill -l "$signal"))) "$runner"
    assert_equal "$(sleepers)" 0
    grep -q "stopped by SIG$signal" "$BATS_TEST_TMPDIR/log"
  done
}
