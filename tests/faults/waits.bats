#!/usr/bin/env bats
# A wait ends within one store timeout after its time, even if the servers fall silent meanwhile.

setup() {
  load ../bats/support
  kind=${BATS_TEST_DESCRIPTION##* }
  DLOCK_TEST_STORE=$kind use_private_store
}

clean_up() { kill -CONT "${silent[@]}" 2> /dev/null || true; }

# Stops all servers of the store. Their processes accept connections, and do not reply.
servers_fall_silent() {
  case $kind in
    redis) silent=("$server_pid") ;;
    postgres) mapfile -t silent < <(processes_of_postgres 1) ;;
    etcd) silent=("${etcd_pids[@]}") ;;
    *) silent=("${pids[@]}") ;;
  esac
  kill -STOP "${silent[@]}"
}

# The end of the wait, by when the servers are silent, then 6 s for the last question and the reply to it, then
# the withdrawal: 11.3 s. With a store timeout for each it would be 17 s and more.
assert_wait_ends() {
  local began
  hold job --ttl 60s
  began=$(now_ms)
  dlock run --ttl 60s --store-timeout 6s --wait 5s job -- true > "$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
  waiter=$!
  eventually is_queued job "$waiter"
  servers_fall_silent

  EVENTUALLY_MS=60000 assert_exits 69 "$waiter"
  # in time: see above
  assert_between $(($(now_ms) - began)) 5000 16000
  # A quorum says it for all of its servers, if their time is over first.
  run cat "$BATS_TEST_TMPDIR/said"
  [[ $output == *'did not reply within 6.0s'* ]] || assert_output_contains '0 of 3 servers reply, 2 required: '
}

@test "a wait for a lock ends within one store timeout after its time, on redis" { assert_wait_ends; }
@test "a wait for a lock ends within one store timeout after its time, on postgres" { assert_wait_ends; }
@test "a wait for a lock ends within one store timeout after its time, on etcd" { assert_wait_ends; }
@test "a wait for a lock ends within one store timeout after its time, on sentinel" { assert_wait_ends; }
@test "a wait for a lock ends within one store timeout after its time, on cluster" { assert_wait_ends; }
@test "a wait for a lock ends within one store timeout after its time, on quorum" { assert_wait_ends; }
