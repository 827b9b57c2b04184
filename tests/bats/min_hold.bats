#!/usr/bin/env bats
# --min-hold keeps a lock after its command has ended: what dlock prints, and what a server
# keeps. For how long, and for whom, is tested in tests/contract.

setup() {
  load support
  load ../faults/redis
  use_redis_store
  stores=("local:$BATS_TEST_TMPDIR/store" "$DLOCK_STORE")
}

@test "dlock ends with its command, -v says how long the lock stays held, and status shows that its holder has ended" {
  for DLOCK_STORE in "${stores[@]}"; do
    echo "on $DLOCK_STORE"
    run timeout 60 dlock run -v --min-hold 1h --label nightly job -- sh -c 'echo done; exit 3'
    assert_status 3
    assert_output_contains 'done'
    assert_output_contains 'dlock: job: released, and held until 1h0m after its grant'

    run dlock run job -- echo started
    assert_message 75 "held by $(id -un)@$(uname -n) (ended, nightly: sh -c " ', held for another 59m'

    run dlock status --json job
    assert_status 0
    assert_equal "$(json '.state, (.holders[] | .attached, .pid, .label), .last_run.outcome')" \
      "$(printf '%s\n' held false null nightly ran)"
    assert_between "$(json '.holders[0].expires_in_ms')" 3400000 3600000
    run dlock status job
    assert_output_contains '(ended, held for another 59m'
  done
}

@test "a command that a signal ends keeps the lock as well, whether its own or one that dlock forwards" {
  for DLOCK_STORE in "${stores[@]}"; do
    echo "on $DLOCK_STORE"
    run dlock run --min-hold 1h own -- sh -c 'kill -TERM $$'
    assert_status 143
    hold sent --min-hold 1h
    kill -TERM "$holder"
    assert_exits 143 "$holder"

    for name in own sent; do
      run dlock status --json "$name"
      assert_equal "$(json '.state, .holders[0].attached, .last_run.signal')" "$(printf '%s\n' held false TERM)"
      assert_between "$(json '.holders[0].expires_in_ms')" 3400000 3600000
    done
  done
}

# --- On a server ---

@test "a server keeps the lock with full memory, for other libraries as well, and all of its keys expire" {
  for mode in '' -s -n3; do
    # shellcheck disable=SC2086
    hold "job$mode" $mode --min-hold 1h
    redis CONFIG SET maxmemory 1
    let_go
    assert_exits 0 "$holder"

    assert_equal "$(look "job$mode" '.holders[0].attached')" false
    redis CONFIG SET maxmemory 0
  done

  redis FLUSHALL
  dlock run --min-hold 30d job -- true

  for key in $(redis KEYS '*'); do
    (($(redis PTTL "$key") > 0)) || { echo "stays for ever: $key" >&2; return 1; }
  done
  # The record of the holder outlives the lock.
  (($(redis PTTL 'dlock:{job}:h') >= $(left_of job)))

  redis FLUSHALL
  dlock run --min-hold 3s job -- true

  foreign_one_gets_it() { [[ $(redis SET 'dlock:{job}' foreign NX PX 1000) == OK ]]; }
  refute foreign_one_gets_it
  eventually foreign_one_gets_it
}
