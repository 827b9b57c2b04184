#!/usr/bin/env bats
# --dedupe skips a run if one is in progress or has started recently: what dlock prints, and
# what reboots and servers do to it. Which runs count is tested in tests/contract.
# shellcheck disable=SC2016  # commands are shells that expand for themselves
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load support
  load ../faults/locks
  load ../faults/redis
  use_redis_store
  stores=("local:$BATS_TEST_TMPDIR/store" "$DLOCK_STORE")
  order=$BATS_TEST_TMPDIR/order
  said=$BATS_TEST_TMPDIR/said
  report=$BATS_TEST_TMPDIR/report
  ran=$BATS_TEST_TMPDIR/ran
}

teardown() {
  stop_redis
  kill_leftovers
}

noting=(sh -c 'echo "$2" >> "$1"' -)

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

# --- Runs that count ---

@test "one of five simultaneous runs executes, and the others are deduplicated in silence" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    asking=()
    for _ in 1 2 3 4 5; do
      dlock run --dedupe 1h job -- "${noting[@]}" "$order" ran 2>> "$said" 3>&- &
      asking+=($!)
    done

    for pid in "${asking[@]}"; do assert_exits 0 "$pid"; done

    assert_equal "$(< "$order")" ran
    assert_equal "$(< "$said")" ''
  done
}

@test "a run on another host counts, and the host is named" {
  needs_root
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    unshare --uts sh -c 'echo elsewhere > /proc/sys/kernel/hostname; dlock run job -- true'

    assert_skipped 'it ran on elsewhere at '
  done
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

@test "a run from before a reboot counts on the local store, unless the reboot ended it" {
  use_private_mounts
  export DLOCK_STORE=${stores[0]}
  dlock run job -- true
  dlock run failed -- false || true
  dlock run failed -- /nowhere/to/be/found || true
  hold ended
  eventually grep -qs '"event":"start".*"name":"ended"' "$BATS_TEST_TMPDIR/store/runs.jsonl"
  kill -KILL "$holder" "$command"
  eventually has_ended "$command"

  echo 11111111-2222-3333-4444-555555555555 > "$BATS_TEST_TMPDIR/boot_id"
  inside mount --bind "$BATS_TEST_TMPDIR/boot_id" /proc/sys/kernel/random/boot_id

  run inside dlock run -v --dedupe 1h job -- touch "$ran"
  assert_output_contains 'skipped: it ran on '
  assert_output_contains ': exit 0, took '
  run inside dlock run -v --dedupe 1h failed -- touch "$ran"
  assert_output_contains ': exit 1, took '
  refute test -e "$ran"
  for words in '--retry-failed failed' ended; do
    # shellcheck disable=SC2086
    run inside dlock run --dedupe 1h $words -- echo started
    assert_equal "$status $output" '0 started'
  done
}

@test "a server gets no times from dlock" {
  start_monitor "$said"

  # shellcheck disable=SC2016
  dlock run --dedupe 1h job -- sh -c 'echo "$DLOCK_FENCE" > "$0"' "$ran"
  dlock run --dedupe 1h job -- true

  # The first six digits of the time in seconds change only every few hours. The fence may
  # contain them, but it comes from the server.
  now=$(date +%s)
  told | sed "s/$(< "$ran")/FENCE/g" > "$order"
  assert_equal "$(grep -c EVALSHA "$order")" 3
  refute grep -q "${now:0:6}" "$order"
}

@test "a server with full memory deduplicates waiters, which leave no permanent keys" {
  hold job
  queue job --dedupe 1h --retry-failed "${noting[@]}" "$order" ran
  redis CONFIG SET maxmemory 1

  let_go

  assert_exits 0 "$waiter"
  refute test -e "$order"
  assert_skipped 'it ran on '

  # All keys expire.
  for key in $(redis KEYS '*'); do
    (($(redis PTTL "$key") > 0)) || { echo "does not expire: $key" >&2; return 1; }
  done
  assert_equal "$(redis EXISTS 'dlock:{job}:d' 'dlock:{job}:q' 'dlock:{job}:w')" 0
  assert_equal "$(redis HEXISTS 'dlock:{job}:s' dedupes)" 0
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

# Prints a time zone in which midnight was, or is, at this second.
midnight_at() {
  local west=$((($1 + 43200) % 86400 - 43200))
  printf '<own>%s%d:%02d:%02d' "${west%%[0-9]*}" $((${west#-} / 3600)) $((${west#-} % 3600 / 60)) $((${west#-} % 60))
}

@test "a run before midnight in the zone of the caller does not count, and one after it does" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock run job -- true
    midnight=$(date +%s)
    next_second() { (($(date +%s) > midnight)); }
    eventually next_second
    # Midnight is now, or was two hours ago.
    midnight=$(date +%s)

    TZ=$(midnight_at $((midnight - 7200))) run dlock run --dedupe day job -- echo started
    assert_equal "$status $output" '0 '
    for expected in '0 started' '0 '; do
      TZ=$(midnight_at "$midnight") run dlock run --dedupe day job -- echo started
      assert_equal "$status $output" "$expected"
    done
    assert_equal "$(dlock history --json job | jq -r '.[0].period_began')" "$(date -ud "@$midnight" +%FT%T.000Z)"
  done
}

# To a host whose clock is ahead, midnight comes as early as in a time zone that is as far east.
@test "with clocks that differ by seconds, a job that starts at midnight can run twice, and one a minute later runs once" {
  local second
  run_at() { TZ=$(midnight_at "$2") run dlock run --dedupe day "$1" -- echo started; }  # <lock> <midnight of the host>
  next_second() { (($(date +%s) > second)); }
  second=$(date +%s)
  run_at hasty $((second - 1))
  assert_equal "$status $output" '0 started'
  run_at later $((second - 63))
  assert_equal "$status $output" '0 started'
  second=$(date +%s)
  eventually next_second
  second=$(date +%s)

  run_at hasty "$second"
  assert_equal "$status $output" '0 started'
  run_at hasty $((second + 10))
  assert_equal "$status $output" '0 '
  for behind in 60 57; do
    run_at later $((second - behind))
    assert_equal "$status $output" '0 '
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
  assert_status 64
  assert_one_line
  assert_output_contains "cannot use the time zone 'Europe/Berlin': there is no $TZDIR (package tzdata); UTC needs none"
  TZ=Europe/Berlin run dlock run --dedupe day job -- touch "$ran"
  assert_status 64
  refute test -e "$ran"

  TZ='' run dlock run --dedupe day job -- echo started
  assert_equal "$status $output" '0 started'
  TZ=CET-1CEST,M3.5.0,M10.5.0/3 run dlock run --dedupe day@UTC other -- echo started
  assert_equal "$status $output" '0 started'
}

# --- Usage errors ---
