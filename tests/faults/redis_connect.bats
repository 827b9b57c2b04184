#!/usr/bin/env bats
# Redis servers that refuse a connection for a moment, and runs that do not wait.

setup() {
  load ../bats/support
  load ../bats/certificates
  load redis
}

# Starts a run that finds no server, and then the server. The run has tried to connect when
# strace shows a call with that result.
assert_survives_a_restart() {  # <error>
  stop_redis
  rm -f "$redis_socket"
  strace -f -qq -e trace=connect -o "$BATS_TEST_TMPDIR/calls" \
    dlock run --ttl 15m --store-timeout 60s job -- true 3>&- &
  local run=$!
  eventually grep -q "$1" "$BATS_TEST_TMPDIR/calls"

  start_redis "${redis_options[@]}"

  assert_exits 0 "$run"
}

@test "a run that does not wait survives a restart of its server" {
  choose_redis_port
  use_redis_store --port "$redis_port"
  assert_survives_a_restart ENOENT
  export DLOCK_STORE=redis://127.0.0.1:$redis_port
  assert_survives_a_restart EINPROGRESS
}

@test "a server that is not there is reported after a quarter of the store timeout" {
  choose_redis_port
  use_private_store
  local begin
  begin=$(now_ms)

  run dlock run --store "redis://127.0.0.1:$redis_port" --ttl 1m --store-timeout 4s job -- true

  assert_status 69
  # in time: before the store timeout
  assert_between $(($(now_ms) - begin)) 500 3900
  assert_output_contains 'connection refused'
}
