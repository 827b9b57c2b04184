#!/usr/bin/env bats
# Long queues on a Redis server: many waiters in one process.
#
#   DLOCK_BIN=build/release/dlock bats tests/long/crowd.bats
#
# DLOCK_CROWD sets the number of waiters, 2000 by default.
# shellcheck disable=SC2154  # helpers set redis_socket

setup() {
  load ../bats/support
  load ../faults/locks
  load ../faults/redis
  use_redis_store --maxclients 10000
  # dlock_crowd does not log in.
  redis ACL SETUSER default on
}

teardown() {
  stop_redis
  kill_leftovers
}

@test "a crowd is served in order, and the last of it as quickly as the first" {
  local crowd first last
  crowd=$(dirname "$(realpath "$DLOCK_BIN")")/tests/dlock_crowd

  run timeout 900 "$crowd" "$redis_socket" "${DLOCK_CROWD:-2000}" 0
  printf '# %s\n' "${lines[@]}" >&3

  assert_status 0
  assert_output_contains ' 0 inversions'
  read -r first last < <(sed -n 's/.*first tenth \([0-9.]*\) ms, of the last \([0-9.]*\) ms.*/\1 \2/p' <<< "$output")
  awk -v first="$first" -v last="$last" 'BEGIN { exit !(last < 3 * first + 1) }'
}
