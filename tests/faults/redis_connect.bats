#!/usr/bin/env bats
# Redis servers that refuse a connection for a moment, and runs that do not wait.
# shellcheck disable=SC2154  # helpers set redis_...

setup() {
  load ../bats/support
  load ../bats/certificates
  load locks
  load redis
}

teardown() {
  stop_redis
  kill_leftovers
}

# Starts a server that permits eight clients, and connects all eight; one is the console.
use_full_server() {
  use_redis_store --maxclients 8
  local console=$BATS_TEST_TMPDIR/console
  mkfifo "$console"
  redis < "$console" > "$console.out" 3>&- &
  exec {console_input}> "$console"
  idle=()
  while ((${#idle[@]} < 7)); do
    redis-cli -s "$redis_socket" --user admin --pass any --no-auth-warning SUBSCRIBE any > /dev/null 3>&- &
    idle+=($!)
  done
  eventually console_says INFO $'^connected_clients:8\r'
}

console_says() {  # <command> <regular expression>
  echo "$1" >&"$console_input"
  grep -q "$2" "$BATS_TEST_TMPDIR/console.out"
}

# Waits until the server has refused at least this many connections.
eventually_refused() {  # <number>
  eventually has_refused "$1"
}

has_refused() {
  echo INFO stats >&"$console_input"
  (($(sed -n 's/^rejected_connections:\([0-9]*\).*/\1/p' "$BATS_TEST_TMPDIR/console.out" | tail -n 1) >= $1))
}

assert_gets_in_when_a_client_leaves() {
  dlock run --ttl 5m --store-timeout 20s job -- true 3>&- &
  local run=$!
  eventually_refused 2

  end_processes "${idle[0]}"

  assert_exits 0 "$run"
}

@test "a run that does not wait gets its lock from a full server as soon as a client leaves" {
  use_full_server

  assert_gets_in_when_a_client_leaves
}

@test "a server that stays full is reported within the store timeout, after several attempts" {
  use_full_server

  run timeout 60 dlock run --store-timeout 1s job -- true

  assert_status 69
  assert_output_contains 'max number of clients reached'
  eventually_refused 4
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
