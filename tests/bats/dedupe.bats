#!/usr/bin/env bats
# --dedupe: a run that goes on, or that started a while ago, is enough; on every store.
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

# For tests that say the same of both stores: shows which one it is, and forgets what
# another one has left.
begin() {
  echo "on $DLOCK_STORE"
  rm -f "$order" "$said" "$report" "$ran"
}

noted() { grep -qsx "$1" "$order"; }

# Asserts what a jq filter makes of the report.
assert_reported() {  # <filter> <expected>
  output=$(< "$report")
  assert_equal "$(json "$1")" "$2"
}

# Asserts that somebody who asks now is told so by -v, and skips it.
assert_skipped() {  # <part of what is said> [<option>...]
  run dlock run -v --dedupe 1h "${@:2}" job -- touch "$ran"
  assert_status 0
  assert_output_contains "dlock: job: skipped: $1"
  refute test -e "$ran"
}

refute() { ! "$@"; }

# Asserts that somebody who asks now runs.
assert_runs() {  # [<option>...]
  run dlock run --dedupe 1h "$@" "${lock:-job}" -- echo started
  assert_equal "$status $output" '0 started'
}

# --- What counts ---

@test "of ten that start at the same time one runs, and the others are deduplicated silently" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    asking=()
    for _ in {1..10}; do
      dlock run --dedupe 1h job -- "${noting[@]}" "$order" ran 2>> "$said" 3>&- &
      asking+=($!)
    done

    for pid in "${asking[@]}"; do assert_exits 0 "$pid"; done

    assert_equal "$(< "$order")" ran
    assert_equal "$(< "$said")" ''
  done
}

@test "a run that goes on is enough, however long ago it started" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    hold job

    run dlock run --dedupe 1ms job -- echo started

    assert_equal "$status $output" '0 '
    let_go
  done
}

@test "a run that goes on is not waited for" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    hold job

    run timeout 5 dlock run --wait forever --dedupe 1h job -- echo started

    assert_equal "$status $output" '0 '
    let_go
  done
}

@test "a run that started a while ago is enough, and one from before that is not" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock run job -- true

    assert_skipped 'it ran on '
    runs_again() { dlock run --dedupe 300ms job -- touch "$ran" && test -e "$ran"; }
    eventually runs_again
  done
}

@test "an exit code for a lock that is busy has nothing to do with it" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock run job -- true

    run dlock run -E 9 --dedupe 1h job -- echo started

    assert_equal "$status $output" '0 '
  done
}

@test "a run without --dedupe runs, or is busy, as usual" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock run --dedupe 1h job -- true

    run dlock run job -- echo started
    assert_equal "$status $output" '0 started'
    hold job
    run dlock run job -- echo started
    assert_status 75
    let_go
  done
}

@test "a command that could not be started, or was not found, is not a run" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    for code in 125 126 127; do dlock run job -- sh -c "exit $code" || true; done
    dlock run job -- /nowhere/to/be/found || true

    assert_runs
  done
}

@test "shared runs and runs in slots are not those that count" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock run -s job -- true
    dlock run -n 2 job -- true

    assert_runs
  done
}

@test "a run above is in the way, and does not count" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin

    run dlock run job -- dlock run --dedupe 1h job -- echo inner

    assert_status 75
    assert_output_contains 'held by an outer run'
  done
}

@test "a run of another host counts, and is named" {
  needs_root
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    unshare --uts sh -c 'echo elsewhere > /proc/sys/kernel/hostname; dlock run job -- true'

    assert_skipped 'it ran on elsewhere at '
  done
}

# --- What -v says ---

@test "-v says when it ran and how it ended" {
  wanted="skipped: it ran on $(uname -n) at 20[0-9-]*T[0-9:.]*Z: exit 0, took "
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock run job -- true
    run dlock run -v --dedupe 1h job -- true
    [[ $output =~ $wanted ]]

    dlock run job -- sh -c 'exit 3' || true
    assert_skipped 'it ran on '
    assert_output_contains ': exit 3, took '

    dlock run --timeout 10ms job -- sleep 600 || true
    assert_skipped 'it ran on '
    assert_output_contains ': timeout, exit 124, took '

    dlock run job -- sh -c 'kill -KILL $$' || true
    assert_skipped 'it ran on '
    assert_output_contains ': ended by SIGKILL, took '
  done
}

@test "-v says that it is running" {
  wanted="skipped: it has been running on $(uname -n) since 20[0-9-]*T[0-9:.]*Z"
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    hold job

    run dlock run -v --dedupe 1h job -- true

    [[ $output =~ $wanted ]]
    let_go
  done
}

@test "a report says that it was deduplicated, and by what" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock run job -- true

    dlock run --dedupe 1h --report "$report" job -- true

    assert_reported '"\(.outcome) \(.exit_code) \(.fence) \(.ran_ms) \(.protected)"' \
      'deduplicated 0 null null null'
    assert_reported '.message | .[0:10]' 'it ran on '
  done
}

# --- Runs that failed ---

@test "a run that failed counts, and with --retry-failed it does not" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock run job -- sh -c 'exit 3' || true
    assert_skipped 'it ran on '
    assert_runs --retry-failed
  done
}

@test "with --retry-failed a success counts, even if a later run failed" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock run job -- true
    dlock run job -- false || true

    assert_skipped 'it ran on ' --retry-failed
    assert_output_contains ': exit 0, took '
  done
}

@test "a run that was ended by a signal or by --timeout is run again" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    lock=signal
    dlock run "$lock" -- sh -c 'kill -TERM $$' || true
    assert_runs --retry-failed

    lock=timeout
    dlock run --timeout 10ms "$lock" -- sleep 600 || true
    assert_runs --retry-failed
  done
}

@test "a run that was killed with its dlock counts, and with --retry-failed it does not" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    hold job --ttl 1s --store-timeout 300ms
    kill -KILL "$holder" "$command"

    is_over() { dlock run -v --dedupe 1h job -- false 2>&1 | grep -q 'it ran on .*: vanished'; }
    eventually is_over
    assert_runs --retry-failed
  done
}

@test "a run that goes on counts with --retry-failed too, for who does not wait" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    hold job

    assert_skipped 'it has been running on ' --retry-failed
    let_go
  done
}

@test "a run that goes on counts with --retry-failed when the wait for its end is over" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    hold job

    assert_skipped 'it has been running on ' --retry-failed --wait 200ms
    assert_equal "$(look job '.waiters | length')" 0
    let_go
  done
}

# --- In the queue ---

@test "all waiters are deduplicated as soon as the run has succeeded" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    hold job
    waiting=()
    for _ in 1 2 3 4; do
      queue job --dedupe 1h --retry-failed "${noting[@]}" "$order" ran 2>> "$said"
      waiting+=("$waiter")
    done

    let_go

    for pid in "${waiting[@]}"; do assert_exits 0 "$pid"; done
    refute test -e "$order"
    assert_equal "$(< "$said")" ''
  done
}

@test "when the run has failed the next one runs, and if that succeeds the others are deduplicated" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    hold job
    waiting=()
    for number in 1 2 3; do
      queue job --dedupe 1h --retry-failed "${noting[@]}" "$order" "$number"
      waiting+=("$waiter")
    done

    kill -TERM "$command"

    for pid in "${waiting[@]}"; do assert_exits 0 "$pid"; done
    assert_equal "$(< "$order")" 1
  done
}

@test "a waiter without --dedupe runs when its turn comes" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    hold job
    queue job --dedupe 1h --retry-failed "${noting[@]}" "$order" deduplicated
    first=$waiter
    queue job "${noting[@]}" "$order" plain

    let_go

    assert_exits 0 "$first"
    assert_exits 0 "$waiter"
    assert_equal "$(< "$order")" plain
  done
}

@test "a waiter behind a lease that is not a run is deduplicated as soon as a run starts" {
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    hold job -s
    reader=$holder
    mkfifo "$ran"
    queue job cat "$ran"
    runner=$waiter
    queue job --dedupe 1h "${noting[@]}" "$order" ran

    let_go "$reader"

    assert_exits 0 "$waiter"
    refute has_ended "$runner"
    echo > "$ran"
    assert_exits 0 "$runner"
    refute test -e "$order"
  done
}

# --- Stores of a kind ---

@test "none: takes the option, and runs every time" {
  export DLOCK_STORE=none:

  for _ in 1 2; do assert_runs --retry-failed --wait 1s; done
}

@test "a run from before a reboot counts after it on this machine" {
  use_private_mounts
  export DLOCK_STORE=${stores[0]}
  dlock run job -- true
  dlock run failed -- false || true
  dlock run failed -- /nowhere/to/be/found || true

  echo 11111111-2222-3333-4444-555555555555 > "$BATS_TEST_TMPDIR/boot_id"
  inside mount --bind "$BATS_TEST_TMPDIR/boot_id" /proc/sys/kernel/random/boot_id

  run inside dlock run -v --dedupe 1h job -- touch "$ran"
  assert_output_contains 'skipped: it ran on '
  assert_output_contains ': exit 0, took '
  run inside dlock run -v --dedupe 1h failed -- touch "$ran"
  assert_output_contains ': exit 1, took '
  run inside dlock run --dedupe 1h --retry-failed failed -- echo started
  assert_equal "$status $output" '0 started'
  refute test -e "$ran"
}

@test "a run that a reboot cut off counts after it, and with --retry-failed it does not" {
  use_private_mounts
  export DLOCK_STORE=${stores[0]}
  hold job
  eventually grep -qs start "$BATS_TEST_TMPDIR/store/runs.jsonl"
  kill -KILL "$holder" "$command"
  eventually has_ended "$command"

  echo 11111111-2222-3333-4444-555555555555 > "$BATS_TEST_TMPDIR/boot_id"
  inside mount --bind "$BATS_TEST_TMPDIR/boot_id" /proc/sys/kernel/random/boot_id

  run inside dlock run -v --dedupe 1h job -- touch "$ran"
  assert_output_contains ': vanished'
  run inside dlock run --dedupe 1h --retry-failed job -- echo started
  assert_equal "$status $output" '0 started'
}

@test "a server uses its own clock" {
  start_monitor "$said"

  # shellcheck disable=SC2016
  dlock run --dedupe 1h job -- sh -c 'echo "$DLOCK_FENCE" > "$0"' "$ran"
  dlock run --dedupe 1h job -- true

  # Until this number of seconds is over, no time begins otherwise. The fence is the server's
  # own word, which it gets back.
  now=$(date +%s)
  told | sed "s/$(< "$ran")/FENCE/g" > "$order"
  assert_equal "$(grep -c EVALSHA "$order")" 3
  refute grep -q "${now:0:6}" "$order"
}

@test "on a server a run is as old as the server says" {
  dlock run job -- true
  # As if the server's clock had gone on for an hour, and a minute less.
  started=$(redis HGET 'dlock:{job}:s' run)
  at() { redis HSET 'dlock:{job}:s' run "${started%% *} $(($(cut -d ' ' -f 2 <<< "$started") - $1 * 1000000)) ${started#* * }"; }

  at $((59 * 60))
  assert_skipped 'it ran on '
  at $((61 * 60))
  assert_runs
}

@test "on a server a step back of the clock by more than the window lets it run" {
  dlock run job -- true
  started=$(redis HGET 'dlock:{job}:s' run)
  ahead() { redis HSET 'dlock:{job}:s' run "${started%% *} $(($(cut -d ' ' -f 2 <<< "$started") + $1 * 1000000)) ${started#* * }"; }

  ahead $((59 * 60))
  assert_skipped 'it ran on '
  ahead $((61 * 60))
  assert_runs
}

@test "a server whose memory is full deduplicates waiters" {
  hold job
  queue job --dedupe 1h --retry-failed "${noting[@]}" "$order" ran
  redis CONFIG SET maxmemory 1

  let_go

  assert_exits 0 "$waiter"
  refute test -e "$order"
  assert_skipped 'it ran on '
}

@test "deduplicated waiters leave nothing on a server" {
  hold job
  queue job --dedupe 1h --retry-failed true
  let_go
  assert_exits 0 "$waiter"

  # Beside runs and the last fence only what goes away by itself.
  for key in $(redis KEYS '*'); do
    (($(redis PTTL "$key") > 0)) || { echo "stays for ever: $key" >&2; return 1; }
  done
  assert_equal "$(redis EXISTS 'dlock:{job}:d' 'dlock:{job}:q' 'dlock:{job}:w')" 0
  assert_equal "$(redis HEXISTS 'dlock:{job}:s' dedupes)" 0
}

# --- What cannot be meant ---

@test "--retry-failed alone, and --dedupe of what is to run side by side, are 64" {
  for words in '--retry-failed' '--dedupe 1h -s' '--dedupe 1h -n 2' '--dedupe 31d' \
    '--dedupe forever' '--dedupe -1' '--dedupe'; do
    # shellcheck disable=SC2086
    run dlock run $words
    assert_status 64
    # shellcheck disable=SC2086
    run dlock run $words job -- echo started
    assert_status 64
    assert_one_line
  done
}

@test "in a configuration file they are 78" {
  config=$BATS_TEST_TMPDIR/config.toml
  printf '[run]\nretry-failed = true\n' > "$config"
  run dlock run --config "$config" job -- echo started
  assert_status 78

  printf '[run]\ndedupe = "1h"\nshared = true\n' > "$config"
  run dlock run --config "$config" job -- echo started
  assert_status 78
}

@test "--dedupe 0 takes back what a configuration file says" {
  config=$BATS_TEST_TMPDIR/config.toml
  printf '[run]\ndedupe = "1h"\nretry-failed = true\n' > "$config"
  dlock run job -- true

  run dlock run --config "$config" job -- echo started
  assert_equal "$status $output" '0 '
  run dlock run --config "$config" --dedupe 0 job -- echo started
  assert_equal "$status $output" '0 started'
}
