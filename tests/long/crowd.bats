#!/usr/bin/env bats
# Long queues on a Redis server: many waiters in one process, and one that is parked.
#
#   DLOCK_BIN=build/release/dlock bats tests/long/crowd.bats
#
# DLOCK_CROWD sets the number of waiters, 2000 by default.

setup() {
  load ../bats/support
  load ../faults/redis
  use_redis_store --maxclients 10000
  # dlock_crowd does not log in.
  redis ACL SETUSER default on
}

@test "a crowd is served in order, and hand-offs stay as quick" {
  local crowd first last
  crowd=$(dirname "$(realpath "$DLOCK_BIN")")/tests/dlock_crowd

  run timeout 900 "$crowd" "$redis_socket" "${DLOCK_CROWD:-2000}" 0
  printf '# %s\n' "${lines[@]}" >&3

  assert_status 0
  assert_output_contains ' 0 inversions'
  read -r first last < <(sed -n 's/.*first tenth \([0-9.]*\) ms, of the last \([0-9.]*\) ms.*/\1 \2/p' <<< "$output")
  awk -v first="$first" -v last="$last" 'BEGIN { exit !(last < 3 * first + 1) }'
}

# Puts 600 waiters into the queue of a lock that is held, and whose last run took an hour.
fill_queue() {
  redis SET 'dlock:{job}' other PX 600000
  redis LPUSH 'dlock:{job}:r' '7 1000000 3601000000 {}'
  redis EVAL "for i = 1, 600 do local token = string.format('%032x', i)
    redis.call('ZADD', KEYS[1] .. ':q', i, token)
    redis.call('HSET', KEYS[1] .. ':w', token, 'x ' .. i .. ' 9000000000000000 0 30000 0a {}') end" 1 'dlock:{job}'
}

waits_without_connection() {
  (($(redis ZCARD 'dlock:{job}:q') == 601)) && redis INFO clients | grep -qx $'connected_clients:1\r'
}

@test "a parked waiter has no connection, and comes back in time to get the lock" {
  fill_queue
  dlock run -w 10m job -- true 3>&- &
  local run=$!
  eventually waits_without_connection

  redis ZREMRANGEBYSCORE 'dlock:{job}:q' 0 1000
  redis DEL 'dlock:{job}'

  EVENTUALLY_MS=70000 eventually has_ended "$run"
  assert_exits 0 "$run"
}

has_ended() { ! kill -0 "$1" 2> /dev/null; }

@test "a parked waiter that is killed leaves the queue" {
  fill_queue
  dlock run -w 10m job -- true 3>&- &
  local run=$!
  eventually waits_without_connection

  kill "$run"

  assert_exits 143 "$run"
  assert_equal "$(redis ZCARD 'dlock:{job}:q')" 600
}
