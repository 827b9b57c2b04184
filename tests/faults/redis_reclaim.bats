#!/usr/bin/env bats
# A lease that the server forgot and that is set up again, and one that the server keeps
# for longer than its holder relies on it.
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

# A lease that is soon renewed.
short=(--ttl 2s --store-timeout 400ms)

# Holds `job` with a report, and what dlock says in a file.
hold_job() {  # [<option>...]
  hold job --report "$report" "$@" 2> "$said"
}

outcome() { jq -r '"\(.outcome) \(.reason) \(.exit_code)"' "$report"; }

# Asserts that the run was lost, and for what reason.
assert_lost() {  # <reason>
  assert_exits 76 "$holder"
  assert_equal "$(outcome)" "lost $1 76"
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

@test "with a lock delay a run that ends gives the lock back at once" {
  hold_job "${short[@]}" --lock-delay 1m

  let_go

  assert_exits 0 "$holder"
  is_free job
  assert_equal "$(< "$said")" ''
}

@test "with a lock delay the command is gone before the ttl is over" {
  hold_job "${short[@]}" --lock-delay 1m

  redis_freezes
  begin=$(now_ms)

  eventually has_ended "$command"
  assert_between $(($(now_ms) - begin)) 0 2000
  assert_lost unconfirmed
}

@test "when dlock is killed, the lock is free after the ttl and the lock delay" {
  hold_job --ttl 600ms --lock-delay 1500ms
  queue job bash -c 'clock_into "$0"' "$order"
  clock_into "$order.killed"

  kill -KILL "$holder"

  eventually test -s "$order"
  # The last renewal was up to a third of the ttl before.
  assert_between "$(ms_between "$order.killed" "$order")" 1850 4000
}

@test "a run that was lost leaves the lock to end by itself" {
  hold_job "${short[@]}" --lock-delay 1m
  redis_freezes
  eventually has_ended "$command"

  assert_lost unconfirmed
  redis_goes_on

  assert_between "$(left_of job)" 50000 62000
  run dlock run job -- true
  assert_status 75
}

@test "that a lost run leaves the lock is said in one line, with when it ends" {
  hold_job "${short[@]}" --lock-delay 1h
  redis_freezes
  assert_lost unconfirmed

  output=$(grep -v 'lost the lock' "$said")
  assert_one_line
  assert_output_contains 'because of the lock delay the lock is not given back'
  [[ $output =~ 'it ends by itself in '(59m59|1h0m)s?$ ]]
}

@test "a lock that is certainly lost is not said to end by itself" {
  hold_job "${short[@]}" --lock-delay 1m

  redis DEL 'dlock:{job}'

  assert_lost gone
  output=$(< "$said")
  assert_one_line
  assert_output_contains 'lost the lock (gone)'
}

@test "a release that is not confirmed counts the lock delay into when the lock ends" {
  hold_job --ttl 30s --store-timeout 500ms --lock-delay 1h
  redis_freezes
  let_go

  assert_exits 0 "$holder"
  output=$(< "$said")
  assert_one_line
  assert_output_contains 'cannot give the lock back'
  [[ $output =~ 'it ends by itself in 1h0m'$ ]]
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
