#!/usr/bin/env bats
# Leases that the server lost and that are set up again (--reclaim), and leases that the
# server keeps longer than their holders rely on them (--lock-delay).

setup() { load ../bats/support && load redis && use_redis_store; }

# A lease that expires soon, one that outlasts what a busy machine needs to start a server, and one
# that is renewed so late that others come first.
short=(--ttl 3s --store-timeout 900ms)
lasting=(--ttl 6s --store-timeout 1s)
long=(--ttl 24s --store-timeout 1s --kill-after 200ms)

# Holds `job` with a report. Writes the messages of dlock to a file.
hold_job() {  # [<option>...]
  hold job --report "$report" "$@" 2> "$said"
}

outcome() { jq -r '"\(.outcome) \(.reason) \(.exit_code)"' "$report"; }

# Asserts that the run was lost, for this reason.
assert_lost() {  # <reason>
  assert_exits 76 "$holder"
  assert_equal "$(jq -r '"\(.outcome) \(.reason) \(.protected)"' "$report")" "lost $1 false"
}

again='dlock: job: the lease was missing from the store and was restored'

# Waits until dlock says that its lease was set up again.
await_reclaim() { eventually grep -q 'was restored' "$said"; }

# Asserts that the run continues and succeeds, and that dlock printed only this line.
assert_reclaimed() {
  await_reclaim
  await_renewal job
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(< "$said")" "$again"
  assert_equal "$(outcome)" 'ran null 0'
  assert_equal "$(look job '.state, .last_run.outcome' | tr '\n' ' ')" 'free ran '
}

# Restarts the server, with the data that it saved if it was told to save.
restart_without_saving() {
  stop_redis
  start_redis
}

# Prints the holders of the lock, without the fields that change all the time.
holders() {
  look "$1" '.holders | map(del(.held_ms, .expires_in_ms))'
}

# --- A lease that the server forgot ---

@test "with --reclaim a run survives a restart without data or with older data, and the deletion of its key" {
  hold_job --reclaim "${lasting[@]}"

  restart_without_saving

  assert_reclaimed

  dlock run job -- true
  redis SAVE
  hold_job --reclaim "${lasting[@]}"

  restart_without_saving

  assert_reclaimed

  for loss in 'FLUSHALL' 'DEL dlock:{job}'; do
    hold_job --reclaim "${lasting[@]}"
    redis CONFIG SET maxmemory 1

    # shellcheck disable=SC2086
    redis $loss

    await_reclaim
    redis CONFIG SET maxmemory 0
    assert_reclaimed
  done

  # --quiet suppresses the warning.
  hold_job -q --reclaim "${lasting[@]}"

  redis FLUSHALL

  eventually is_held job
  await_renewal job
  assert_equal "$(< "$said")" ''
}

@test "with --reclaim a run is lost if another one was granted the lock, the server falls silent, or it was stopped for too long" {
  hold_job --reclaim "${long[@]}"
  first=$holder

  redis FLUSHALL
  hold job

  holder=$first
  assert_lost 'taken over'
  is_held job
  assert_equal "$(grep -c . "$said")" 1

  redis FLUSHALL
  hold_job --reclaim "${short[@]}"
  redis_freezes
  assert_lost unconfirmed
  redis_goes_on

  redis FLUSHALL
  hold_job --reclaim "${short[@]}"

  kill -STOP "$holder"
  eventually has_ended "$command"
  eventually is_free job
  kill -CONT "$holder"

  assert_lost unconfirmed
  is_free job
}

# Then the fence of the other run is smaller.
@test "with --reclaim a run is lost if another one was granted the lock by a server without its data, whose clock is behind" {
  hold_job --reclaim "${long[@]}"
  halt "$holder"
  stop_redis
  cc -shared -fPIC -O1 -o "$BATS_TEST_TMPDIR/clock.so" "$DLOCK_SOURCE/tests/chaos/clock.c"
  echo -20000 > "$BATS_TEST_TMPDIR/offset"
  LD_PRELOAD=$BATS_TEST_TMPDIR/clock.so CHAOS_CLOCK=$BATS_TEST_TMPDIR/offset start_redis
  next=$(dlock run job -- printenv DLOCK_FENCE)
  kill -CONT "$holder"

  assert_lost 'taken over'

  ((next < $(jq .fence "$report")))
}

@test "with local: and none: --reclaim and --lock-delay change nothing" {
  for store in "local:$BATS_TEST_TMPDIR/store" none:; do
    export DLOCK_STORE=$store
    run dlock run --reclaim --lock-delay 1h job -- true
    assert_equal "$status $output" '0 '
    run dlock run job -- true
    assert_equal "$status $output" '0 '
  done

  # A lock whose directory was removed is lost.
  export DLOCK_STORE=local:$BATS_TEST_TMPDIR/store
  hold_job --reclaim
  mv "$BATS_TEST_TMPDIR/store" "$BATS_TEST_TMPDIR/elsewhere"
  assert_lost gone
}

# --- Lock delay ---

@test "the server keeps a lease for the ttl and the lock delay, and frees it at once when the run ends" {
  hold_job "${short[@]}" --lock-delay 1m

  await_renewal job
  assert_between "$last_left" 60001 63000

  let_go

  assert_exits 0 "$holder"
  is_free job
  assert_equal "$(< "$said")" ''

  for mode in -s -n3; do
    hold "job$mode" "$mode" "${short[@]}" --lock-delay 1m

    await_renewal "job$mode"
    assert_between "$last_left" 60001 63000
    assert_between "$(look "job$mode" '.holders[0].expires_in_ms')" 60000 63000
  done
}

@test "when dlock is killed, the lock is free after the ttl and the lock delay" {
  hold_job --ttl 1500ms --lock-delay 1500ms
  queue job bash -c 'clock_into "$0"' "$order"
  clock_into "$order.killed"

  kill -KILL "$holder"

  eventually test -s "$order"
  # Without the delay it would have been free at the end of the ttl.
  assert_between "$(ms_between "$order.killed" "$order")" 1501 10000
}

@test "a lost run leaves its lock to expire, says so and until when, and is recorded as lost" {
  hold_job "${short[@]}" --lock-delay 1h
  redis_freezes
  assert_lost unconfirmed
  output=$(grep -v 'lost the lock' "$said")
  assert_one_line
  assert_output_contains 'not releasing the lock because of --lock-delay'
  [[ $output =~ 'its lease expires in '(59m[0-9]+|1h0m)s?$ ]]
  redis_goes_on
  redis FLUSHALL

  hold_job "${short[@]}" --lock-delay 10s
  redis_freezes
  eventually has_ended "$command"
  redis_goes_on

  assert_lost unconfirmed

  assert_equal "$(look job '"\(.last_run.outcome) \(.last_run.reason) \(.last_run.exit_code)"')" \
    'lost unconfirmed 76'
  # It does not deduplicate others.
  run dlock run --dedupe 1h job -- true
  assert_status 75
  run dlock run --dedupe 1h --wait 1m --report "$report" job -- true
  assert_equal "$status $(jq -r .outcome "$report")" '0 ran'
  assert_equal "$(dlock history --json job | jq -r '[.[].outcome] | join(" ")')" 'ran lost'
}

@test "a run that was stopped for too long, or whose command obeys late, leaves its lock to expire" {
  dlock run --report "$report" --ttl 5s --store-timeout 400ms --kill-after 5s --lock-delay 1m job -- \
    sh -c 'trap "echo told >> \"\$0\"" TERM; while :; do sleep 0.1; done' "$order" 3>&- &
  holder=$!
  eventually is_held job
  redis_freezes
  eventually grep -qx told "$order"
  redis_goes_on  # so that the lock could be given back

  assert_lost unconfirmed

  assert_between "$(left_of job)" 55000 65000
  run dlock run job -- true
  assert_status 75

  redis FLUSHALL
  hold_job "${short[@]}" --lock-delay 1m

  kill -STOP "$holder"
  eventually has_ended "$command"
  is_held job
  kill -CONT "$holder"

  assert_lost unconfirmed
  is_held job
}

@test "a lock that is certainly lost is not reported as still held, and a release that is not confirmed counts the delay" {
  hold_job "${short[@]}" --lock-delay 1m

  redis DEL 'dlock:{job}'

  assert_lost gone
  output=$(< "$said")
  assert_one_line
  assert_output_contains 'lost the lock: the server no longer knows it'

  hold_job --ttl 30s --store-timeout 500ms --lock-delay 1h
  redis_freezes
  let_go

  assert_exits 0 "$holder"
  output=$(< "$said")
  assert_one_line
  assert_output_contains 'cannot release the lock'
  [[ $output =~ 'its lease expires in 1h0m'$ ]]
}
