#!/usr/bin/env bats
# Rate limits on a Redis server: they work as on one machine, by the server's timestamps.

setup() {
  load support
  load ../faults/redis
  load ../faults/rates
  use_redis_store
}

# Prints the times, in microseconds, at which the server has admitted callers since
# start_monitor.
stamps() {
  redis ECHO 'that was it' > /dev/null
  eventually grep -q '"that was it"' "$monitor"
  sed -nE 's/.* lua\] "ZADD" "dlock:\{api\}:limit:stamps" "([0-9]+)" .*/\1/p' "$monitor"
}

@test "a waiter sends nothing to the server until its turn" {
  dlock limit api 1/6s
  await_turn api 1/6s
  start_monitor "$BATS_TEST_TMPDIR/monitor"
  said_something() { grep -q EVALSHA "$BATS_TEST_TMPDIR/monitor"; }

  never_within 500 said_something

  assert_exits 0 "$waiter"
  assert_equal "$(told | grep -c EVALSHA)" 1
}

@test "while the command runs dlock has no connection to the server, and a key of another type is an error" {
  run dlock limit api 1/1h -- redis-cli -s "$redis_socket" --user admin --pass any \
    --no-auth-warning CLIENT LIST
  assert_status 0
  refute_output_contains name=dlock

  redis FLUSHALL
  redis SET 'dlock:{api}:limit' x

  run dlock limit api 2/1h

  assert_message 78

  redis FLUSHALL
  dlock limit api 2/1h
  redis SCRIPT FLUSH > /dev/null

  run dlock limit --json api 2/1h

  assert_equal "$(json .remaining)" 0
}

@test "the keys of a limit expire, and hold no more timestamps than it admits" {
  for _ in {1..12}; do dlock limit -w 5s api 3/20ms; done
  (($(redis ZCARD 'dlock:{api}:limit:stamps') <= 3))

  local key
  for key in $(redis KEYS 'dlock:{api}*'); do
    assert_between "$(redis PTTL "$key")" 1 61000
  done
}
