#!/usr/bin/env bats
# What happens to a command when its lease on a Redis server is no longer certain, and what
# the command does not notice.

setup() {
  load ../bats/support
  load redis
  use_redis_store --appendonly yes --appendfsync always
}

# A short lease, and one that survives an outage of more than two seconds.
short=(--ttl 3s --store-timeout 900ms)
long=(--ttl 6s --store-timeout 1s --kill-after 200ms)

started() { grep -qsx "$1" "$order"; }

# Holds `job` with a report. Writes the messages of dlock to a file.
hold_job() {  # [<option>...]
  hold job --report "$report" "$@" 2> "$said"
}

# Runs a command under `job` in the background, and waits until it has written to $began.
start_job() {  # <command>...
  dlock run --report "$report" "${long[@]}" job -- "$@" 2> "$said" 3>&- &
  holder=$!
  eventually test -s "$began"
}

# Asserts that the run was lost, for this reason.
assert_lost() {  # <reason>
  assert_exits 76 "$holder"
  assert_equal "$(jq -r '"\(.outcome) \(.reason) \(.protected)"' "$report")" "lost $1 false"
}

# Asserts that the run continues and succeeds, and that dlock printed nothing.
assert_nothing_noticed() {
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(< "$said")" ''
  assert_equal "$(jq -r .outcome "$report")" ran
}

# --- How a lost run is recorded ---

@test "a lost run is recorded as soon as the server replies, its lock is released in time, and a signal ends the attempts" {
  use_relay
  hold_job --ttl 10s --store-timeout 300ms --kill-after 2s
  network drop
  eventually grep -q 'cannot release the lock' "$said"

  network forward

  assert_lost unconfirmed
  is_free job
  assert_equal "$(look job '"\(.last_run.outcome) \(.last_run.reason)"')" 'lost unconfirmed'

  redis FLUSHALL
  hold_job "${short[@]}" --lock-delay 1m
  network drop
  eventually grep -q 'not releasing the lock' "$said"

  network forward

  assert_lost unconfirmed
  assert_equal "$(look job '"\(.last_run.outcome) \(.last_run.reason)"')" 'lost unconfirmed'
  is_held job

  redis FLUSHALL
  hold_job --ttl 20s --store-timeout 5s --kill-after 200ms --lock-delay 1h
  network drop
  eventually grep -q 'not releasing the lock' "$said"
  begin=$(now_ms)

  kill -TERM "$holder"

  assert_lost unconfirmed
  assert_between $(($(now_ms) - begin)) 0 4900

  redis FLUSHALL
  # It does not count for --dedupe.
  network forward
  hold_job "${short[@]}" --dedupe 1h
  redis_freezes
  assert_lost unconfirmed
  redis_goes_on
  eventually is_free job

  run dlock run --dedupe 1h job -- echo started

  assert_equal "$status $output" '0 started'
}

# --- Another program takes the lock away ---

@test "a key without a time to live or with a shortened one becomes a full lease again" {
  hold_job "${short[@]}"

  redis PERSIST 'dlock:{job}'

  await_renewal job
  assert_nothing_noticed

  hold_job "${long[@]}"

  redis PEXPIRE 'dlock:{job}' 3000

  await_renewal job
  (($(left_of job) > 3000))
  assert_nothing_noticed
}

@test "if the server falls silent or is down, the loss says so, and for how long the lease could not be renewed" {
  hold_job "${long[@]}" --report "$BATS_TEST_TMPDIR/report"

  redis_freezes

  assert_exits 76 "$holder"
  # The next line says that the lock cannot be released either.
  output=$(head -n 1 "$said")
  [[ $output =~ 'job: lost the lock: its lease could not be renewed for '[1-5]\.[0-9]s' (/'[^\ ]+' did not reply within '[^\ ]+'), so the command was stopped '[1-9][0-9]*ms' before the lease expired'$ ]]
  [[ $output == *" $(jq .margin_ms "$BATS_TEST_TMPDIR/report")ms before "* ]]

  redis_goes_on
  redis FLUSHALL
  hold_job "${long[@]}"

  stop_redis

  assert_exits 76 "$holder"
  output=$(head -n 1 "$said")
  [[ $output =~ 'job: lost the lock: its lease could not be renewed for '[1-5]\.[0-9]s' (cannot reach /'[^\ ]+': '.+'), so the command was stopped '[1-9][0-9]*ms' before the lease expired'$ ]]
}

# --- Giving back ---

# Ends a run while the server is silent, and sets $took.
end_in_silence() {
  hold_job --ttl 30s --store-timeout 500ms
  redis_freezes
  begin=$(now_ms)
  let_go

  assert_exits 0 "$holder"
  took=$(($(now_ms) - begin))
}

# Ends the waiter $waiter by SIGTERM while the server is silent. It has to say one line, and that it
# may still get the lock for this long.
assert_cannot_withdraw() {  # <pid in the queue> <time>
  eventually is_queued job "$1"
  redis_freezes
  kill "$waiter"
  assert_exits 143 "$waiter"
  redis_goes_on
  output=$(but_for_wait "$said")
  assert_one_line
  [[ $output == *'cannot withdraw the request for the lock: '*' did not reply within '*"; it may still get the lock, for $2 at most" ]]
}

@test "a waiter that cannot withdraw its request says for how long it may still get the lock" {
  hold job --ttl 60s

  dlock run --wait 60s --ttl 20s --lock-delay 5s job -- true 2> "$said" 3>&- &
  waiter=$!
  assert_cannot_withdraw "$waiter" 25s

  dlock acquire --wait 60s --ttl 20s job 2> "$said" 3>&- &
  waiter=$!
  assert_cannot_withdraw "$$" 20s
}

@test "a release on a silent server is bounded, reported in one line, and does not change the exit code" {
  end_in_silence

  assert_between "$took" 500 10000

  output=$(< "$said")
  assert_one_line
  assert_output_contains 'cannot release the lock'
  [[ $output =~ 'its lease expires in '(2[0-9](\.[0-9])?|30)s$ ]]

  redis_goes_on
  redis FLUSHALL
  mkfifo "$began.go"
  start_job sh -c 'echo started > "$0"; read -r _ < "$0.go"; exit 3' "$began"
  redis_freezes
  echo go > "$began.go"

  assert_exits 3 "$holder"
}

# --- Waiting ---

@test "waiters keep their places through a restart and a silence of the server" {
  hold job
  for number in 1 2 3 4; do queue job "${noting[@]}" "$order" "$number"; done

  restart_redis
  let_go

  eventually started 4
  assert_equal "$(tr -d '\n' < "$order")" 1234

  rm "$order"
  hold job
  for number in 1 2 3; do queue job --store-timeout 300ms "${noting[@]}" "$order" "$number"; done

  redis_freezes
  let_go
  never_within 1000 started 1
  redis_goes_on

  eventually started 3
  assert_equal "$(tr -d '\n' < "$order")" 123
}

@test "a waiter whose wake-up got lost with its connection gets its turn nevertheless" {
  hold job
  queue job "${noting[@]}" "$order" next
  kill -STOP "$waiter"
  let_go
  assert_exits 0 "$holder"

  redis CLIENT KILL TYPE normal SKIPME yes
  kill -CONT "$waiter"

  eventually started next
}
