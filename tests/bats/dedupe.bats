#!/usr/bin/env bats
# --dedupe skips a run if one is in progress or has started recently: what dlock prints, and
# what reboots and servers do to it. Which runs count is tested in tests/contract.

setup() {
  load support
  load ../faults/redis
  use_redis_store
  stores=("local:$BATS_TEST_TMPDIR/store" "$DLOCK_STORE")
}

# For tests on both stores: prints the store, and removes the files of the test on the
# previous one.
begin() {
  echo "on $DLOCK_STORE"
  rm -f "$order" "$said" "$report" "$ran"
}

# Asserts the result of a jq filter on the report.
assert_reported() {  # <filter> <expected>
  output=$(< "$report")
  assert_equal "$(json "$1")" "$2"
}

# Asserts that a run with --dedupe 1h is deduplicated, for the reason that -v prints.
assert_skipped() {  # <start of the reason> [<option>...]
  run dlock run -v --dedupe 1h "${@:2}" job -- touch "$ran"
  assert_status 0
  assert_output_contains "dlock: job: skipped: $1"
  refute test -e "$ran"
}

# Asserts that a run with --dedupe 1h is not deduplicated.
assert_runs() {
  run dlock run --dedupe 1h job -- echo started
  assert_equal "$status $output" '0 started'
}

# --- The reason ---

@test "-v and the report say why a run was deduplicated, and -E does not change its exit code" {
  wanted="skipped: it ran on $(uname -n) at 20[0-9-]*T[0-9:.]*Z: exit 0, took "
  since="skipped: it has been running on $(uname -n) since 20[0-9-]*T[0-9:.]*Z"
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock run job -- true
    run dlock run -v -E 9 --dedupe 1h --report "$report" job -- true
    assert_status 0
    [[ $output =~ $wanted ]]
    assert_reported '"\(.outcome) \(.exit_code) \(.fence) \(.ran_ms) \(.protected) \(.message[0:10])"' \
      'deduplicated 0 null null null it ran on '

    dlock run job -- sh -c 'exit 3' || true
    assert_skipped 'it ran on '
    assert_output_contains ': exit 3, took '

    dlock run --timeout 10ms job -- sleep 600 || true
    assert_skipped 'it ran on '
    assert_output_contains ': timeout, exit 124, took '

    dlock run job -- sh -c 'kill -KILL $$' || true
    assert_skipped 'it ran on '
    assert_output_contains ': killed by SIGKILL, took '

    hold job
    run dlock run -v --dedupe 1h job -- true
    [[ $output =~ $since ]]
    let_go
  done
}

@test "a run that was killed with its dlock does not count, and the history says so" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    hold job --ttl 3s --store-timeout 900ms
    kill -KILL "$holder" "$command"
    eventually is_free job

    assert_runs

    run dlock history job
    assert_output_contains 'vanished (end not recorded)'
  done
}

# --- Particular stores ---

@test "a server gets no times from dlock" {
  start_monitor "$said"

  dlock run --dedupe 1h job -- sh -c 'echo "$DLOCK_FENCE" > "$0"' "$ran"
  dlock run --dedupe 1h job -- true

  # The first six digits of the time in seconds change only every few hours. The fence may
  # contain them, but it comes from the server.
  now=$(date +%s)
  told | sed "s/$(< "$ran")/FENCE/g" > "$order"
  assert_equal "$(grep -c EVALSHA "$order")" 3
  refute grep -q "${now:0:6}" "$order"
}

# --- Calendar periods: when they begin is tested in tests/unit/calendar_test.cpp ---

@test "a run of this calendar period counts, and -v and the report say which period that is" {
  # A month may begin during the test, but not twice.
  for _ in 1 2; do
    wanted="(--dedupe month@UTC: since $(date -u +%Y-%m)-01T00:00:00.000Z)"
    dlock run job -- true
    run dlock run -v --dedupe month@UTC --report "$report" job -- touch "$ran"
    [[ $output != *"$wanted" ]] || break
  done

  assert_status 0
  assert_output_contains "$wanted"
  refute test -e "$ran"
  assert_reported ".message | endswith(\"$wanted\")" true
}

@test "history and its JSON show the calendar period of a run, even while it runs" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock run --dedupe 12h plain -- true
    dlock run --dedupe month@UTC job -- true
    hold busy --dedupe month@UTC

    for name in job busy; do
      run dlock history --json "$name"
      assert_equal "$(json '.[0] | "\(.period) \(.period_began == (.started[0:7] + "-01T00:00:00.000Z"))"')" 'month@UTC true'
      run dlock history "$name"
      assert_output_contains '  PERIOD  '
      assert_output_contains '  month@UTC  '
    done
    assert_equal "$(dlock history --json plain | jq -c '.[0] | has("period")')" false
    assert_equal "$(dlock history plain | grep -c PERIOD)" 0
    let_go
  done
}

@test "the age of a run on a server is by the server's clock, even after that steps back, for windows and calendar periods" {
  local period
  dlock run job -- true
  # Moves the start of the run, as if the server's clock had moved the other way.
  started=$(redis HGET 'dlock:{job}:s' run)
  read -r first at rest <<< "$started"
  move() { redis HSET 'dlock:{job}:s' run "$first $((at + $1 * 60000000)) $rest"; }  # <minutes>

  move -59
  assert_skipped 'it ran on '
  move 59
  assert_skipped 'it ran on '
  move -61
  assert_runs
  move 61
  assert_runs
  for period in month month@Asia/Kathmandu; do
    move $((-32 * 24 * 60))
    run dlock run --dedupe "$period" job -- echo started
    assert_equal "$status $output" '0 started'
  done
}

@test "the command's TZ is the caller's, whatever the zone of --dedupe is" {
  TZ=Europe/Berlin run dlock run --dedupe day@Asia/Tokyo job -- printenv TZ
  assert_equal "$status $output" '0 Europe/Berlin'
  run env -u TZ "$(type -P dlock)" run --dedupe day@Asia/Tokyo other -- sh -c 'echo "${TZ-none}"'
  assert_equal "$status $output" '0 none'
}

@test "without a database of time zones, only UTC can be named" {
  export TZDIR=$BATS_TEST_TMPDIR/no-zones

  run dlock run --dedupe day@Europe/Berlin job -- touch "$ran"
  assert_message 64 "cannot use the time zone 'Europe/Berlin': there is no $TZDIR (package tzdata); UTC needs none"
  TZ=Europe/Berlin run dlock run --dedupe day job -- touch "$ran"
  assert_status 64
  refute test -e "$ran"

  TZ='' run dlock run --dedupe day job -- echo started
  assert_equal "$status $output" '0 started'
  TZ=CET-1CEST,M3.5.0,M10.5.0/3 run dlock run --dedupe day@UTC other -- echo started
  assert_equal "$status $output" '0 started'
}
