#!/usr/bin/env bats
# Leases that the server lost and that are set up again (--reclaim), and leases that the
# server keeps longer than their holders rely on them (--lock-delay).
# shellcheck disable=SC2016  # commands are shells that expand for themselves
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load ../bats/support
  load locks
  load redis
  use_redis_store
  report=$BATS_TEST_TMPDIR/report
  said=$BATS_TEST_TMPDIR/said
  order=$BATS_TEST_TMPDIR/order
}

teardown() {
  stop_redis
  kill_leftovers
}

# A lease that expires soon, one that outlasts what a busy machine needs to start a server, and one
# that is renewed so late that others come first.
short=(--ttl 2s --store-timeout 400ms)
lasting=(--ttl 6s --store-timeout 1s)
long=(--ttl 15s --store-timeout 1s --kill-after 200ms)

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

@test "a restart of the server without its data ends the run" {
  hold_job "${short[@]}"

  restart_without_saving

  assert_lost gone
}

@test "with --reclaim a run survives a restart of the server without its data" {
  hold_job --reclaim "${lasting[@]}"

  restart_without_saving

  assert_reclaimed
}

@test "with --reclaim a run survives a restart of the server with older data" {
  dlock run job -- true
  redis SAVE
  hold_job --reclaim "${lasting[@]}"

  restart_without_saving

  assert_reclaimed
}

@test "with --reclaim a run survives the deletion of its key on a server whose memory is full" {
  for loss in 'FLUSHALL' 'DEL dlock:{job}'; do
    hold_job --reclaim "${lasting[@]}"
    redis CONFIG SET maxmemory 1

    # shellcheck disable=SC2086
    redis $loss

    await_reclaim
    redis CONFIG SET maxmemory 0
    assert_reclaimed
  done
}

@test "a lease that was set up again causes a warning, which --quiet suppresses" {
  hold_job -q --reclaim "${lasting[@]}"

  redis FLUSHALL

  eventually is_held job
  await_renewal job
  assert_equal "$(< "$said")" ''
}

@test "with --reclaim a lock that another run was granted meanwhile is taken over" {
  hold_job --reclaim "${long[@]}"
  first=$holder

  redis FLUSHALL
  hold job

  holder=$first
  assert_lost 'taken over'
  is_held job
  assert_equal "$(grep -c . "$said")" 1
}

@test "with --reclaim a server that falls silent ends the run as without it" {
  hold_job --reclaim "${short[@]}"

  redis_freezes

  assert_lost unconfirmed
}

@test "with --reclaim a run that was stopped for too long is lost nevertheless" {
  hold_job --reclaim "${short[@]}"

  kill -STOP "$holder"
  eventually has_ended "$command"
  eventually is_free job
  kill -CONT "$holder"

  assert_lost unconfirmed
  is_free job
}

@test "a waiter keeps waiting when all keys were deleted and the lease was set up again" {
  hold_job --reclaim "${lasting[@]}"
  queue job sh -c 'echo started >> "$0"' "$order"

  redis FLUSHALL

  await_reclaim
  eventually is_queued job "$waiter"
  let_go
  assert_exits 0 "$waiter"
  assert_exits 0 "$holder"
  assert_equal "$(< "$order")" started
}

@test "a run that was recorded as vanished becomes the last one with its real end" {
  hold_job --reclaim "${long[@]}"
  queue job true
  redis DEL 'dlock:{job}'
  kill -TERM "$waiter"  # which clears what is left of the lease
  eventually has_ended "$waiter"
  assert_equal "$(look job .last_run.outcome)" vanished

  await_reclaim
  assert_equal "$(look job .last_run)" null
  let_go
  assert_exits 0 "$holder"

  assert_equal "$(redis LLEN 'dlock:{job}:r')" 1
  assert_equal "$(look job .last_run.outcome)" ran
}

@test "with local: and none: --reclaim changes nothing" {
  for store in "local:$BATS_TEST_TMPDIR/store" none:; do
    DLOCK_STORE=$store run dlock run --reclaim job -- true
    assert_equal "$status $output" '0 '
  done
}

@test "a local: lock whose directory was removed is lost also with --reclaim" {
  export DLOCK_STORE=local:$BATS_TEST_TMPDIR/store
  hold_job --reclaim

  mv "$BATS_TEST_TMPDIR/store" "$BATS_TEST_TMPDIR/elsewhere"

  assert_lost gone
}

# --- Lock delay ---

@test "the server keeps a lease for the ttl and the lock delay" {
  hold_job "${short[@]}" --lock-delay 1m

  assert_between "$(left_of job)" 60500 62000
  await_renewal job
  assert_between "$(left_of job)" 61000 62000
}

@test "the server keeps a lease on a slot, and a shared one, for the lock delay too" {
  for mode in -s -n3; do
    hold "job$mode" "$mode" "${short[@]}" --lock-delay 1m

    await_renewal "job$mode"
    assert_between "$(left_of "job$mode")" 61000 62000
    assert_between "$(look "job$mode" '.holders[0].expires_in_ms')" 60000 62000
  done
}

@test "with a lock delay a run that ends releases the lock at once" {
  hold_job "${short[@]}" --lock-delay 1m

  let_go

  assert_exits 0 "$holder"
  is_free job
  assert_equal "$(< "$said")" ''
}

@test "with a lock delay the command has exited before the ttl is over" {
  hold_job "${short[@]}" --lock-delay 1m

  redis_freezes
  begin=$(now_ms)

  eventually has_ended "$command"
  assert_between $(($(now_ms) - begin)) 0 2000
  assert_lost unconfirmed
}

@test "when dlock is killed, the lock is free after the ttl and the lock delay" {
  hold_job --ttl 1500ms --lock-delay 1500ms
  queue job bash -c 'clock_into "$0"' "$order"
  clock_into "$order.killed"

  kill -KILL "$holder"

  eventually test -s "$order"
  # The last renewal was up to a third of the ttl earlier.
  assert_between "$(ms_between "$order.killed" "$order")" 2450 5500
}

@test "a lost run leaves its lock to expire" {
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
}

@test "a run that leaves its lock to expire is recorded as lost, and does not deduplicate others" {
  hold_job "${short[@]}" --lock-delay 3s
  redis_freezes
  eventually has_ended "$command"
  redis_goes_on

  assert_lost unconfirmed

  assert_equal "$(look job '"\(.last_run.outcome) \(.last_run.reason) \(.last_run.exit_code)"')" \
    'lost unconfirmed 76'
  run dlock run --dedupe 1h job -- true
  assert_status 75
  run dlock run --dedupe 1h --wait 1m --report "$report" job -- true
  assert_equal "$status $(jq -r .outcome "$report")" '0 ran'
  assert_equal "$(dlock history --json job | jq -r '[.[].outcome] | join(" ")')" 'ran lost'
}

@test "a lost run reports in one line that its lock stays held, and until when" {
  hold_job "${short[@]}" --lock-delay 1h
  redis_freezes
  assert_lost unconfirmed

  output=$(grep -v 'lost the lock' "$said")
  assert_one_line
  assert_output_contains 'not releasing the lock because of --lock-delay'
  [[ $output =~ 'its lease expires in '(59m59|1h0m)s?$ ]]
}

@test "a run that was stopped for too long leaves its lock to expire" {
  hold_job "${short[@]}" --lock-delay 1m

  kill -STOP "$holder"
  eventually has_ended "$command"
  is_held job
  kill -CONT "$holder"

  assert_lost unconfirmed
  is_held job
}

@test "a lock that is certainly lost is not reported as still held" {
  hold_job "${short[@]}" --lock-delay 1m

  redis DEL 'dlock:{job}'

  assert_lost gone
  output=$(< "$said")
  assert_one_line
  assert_output_contains 'lost the lock: the server no longer knows it'
}

@test "a release that is not confirmed counts the lock delay into when the lock ends" {
  hold_job --ttl 30s --store-timeout 500ms --lock-delay 1h
  redis_freezes
  let_go

  assert_exits 0 "$holder"
  output=$(< "$said")
  assert_one_line
  assert_output_contains 'cannot release the lock'
  [[ $output =~ 'its lease expires in 1h0m'$ ]]
}

@test "with local: and none: a lock delay changes nothing" {
  for store in "local:$BATS_TEST_TMPDIR/store" none:; do
    export DLOCK_STORE=$store

    run dlock run --lock-delay 1h job -- true
    assert_equal "$status $output" '0 '
    run dlock run job -- true
    assert_equal "$status $output" '0 '
  done
}
