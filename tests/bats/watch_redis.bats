#!/usr/bin/env bats
# dlock watch: what is specific to a server.
# shellcheck disable=SC2154  # the helpers set holder, command, watcher

setup() {
  load support
  load ../faults/locks
  load ../faults/redis
  load watching
  use_redis_store
}

teardown() {
  stop_redis
  kill_leftovers
}

short=(--ttl 2s --store-timeout 400ms)

@test "a run whose lease is renewed is not reported as expired" {
  watch
  hold job "${short[@]}"
  hold other "${short[@]}"
  kill -KILL "$holder"
  eventually has_seen 'expired other 1'

  [[ $(events) != *'expired job'* ]]
}

@test "a run whose lock another program has taken is reported as lost" {
  watch
  hold job "${short[@]}"
  redis SET 'dlock:{job}' another PX 60000 > /dev/null

  eventually has_ended "$holder"

  eventually has_seen 'lost job 0'
}

@test "watch reports that it lost the connection and that it reconnected" {
  watch
  redis CLIENT KILL TYPE pubsub > /dev/null

  eventually grep -q 'events are missed from now on' "$said"
  eventually grep -q 'watching again' "$said"
  dlock run job -- true

  assert_events 'granted job 0' 'released job 1'
}

@test "a server that was down for a while is watched again" {
  watch
  stop_redis
  eventually grep -q 'events are missed from now on' "$said"
  assert_equal "$(grep -c 'events are missed' "$said")" 1

  start_redis
  eventually grep -q 'watching again' "$said"
  dlock run job -- true

  assert_events 'granted job 0' 'released job 1'
}

@test "a user without permission to subscribe cannot watch (77) but can take locks" {
  redis ACL SETUSER limited on '>secret' '~dlock:*' resetchannels +@all > /dev/null
  unset DLOCK_PASSWORD_FILE
  export DLOCK_USER=limited DLOCK_PASSWORD=secret

  run dlock watch

  assert_status 77
  assert_one_line
  dlock run job -- true
}

@test "published messages that are not events are skipped" {
  watch
  redis PUBLISH 'dlock:{job}:e' 'granted' > /dev/null
  redis PUBLISH 'dlock:{job}:e' 'granted 1 2 3 x {}' > /dev/null
  redis PUBLISH 'dlock:{job}:e' 'nonsense 1 2 3 4 {}' > /dev/null
  redis PUBLISH 'dlock:{job}:e' 'granted 1 2 3 4 []' > /dev/null

  dlock run job -- true

  eventually has_seen 'released job 1'
  assert_equal "$(events)" $'granted job 3\ngranted job 0\nreleased job 1'
}

@test "events that a reader cannot keep up with are dropped, and their number is reported" {
  watch_slowly
  kill -STOP "$reader"
  long=$(head -c 200 /dev/zero | tr '\0' x)
  for ((i = 0; i < 20000; i++)); do
    echo "PUBLISH dlock:{job}:e \"released $i 0 1 1760000000000 {\\\"command\\\":[\\\"$long\\\"]}\""
  done > "$BATS_TEST_TMPDIR/events"

  redis < "$BATS_TEST_TMPDIR/events" > /dev/null
  all_were_read() { [[ $(redis CLIENT LIST TYPE pubsub) == *' omem=0 '* ]]; }
  eventually all_were_read
  kill -CONT "$reader"
  eventually has_seen 'released job 1'
  dlock run job -- true

  eventually grep -qE '^dlock: [0-9]+ events were dropped: standard output is too slow$' "$said"
  all_came() { [[ $(tail -n 1 "$seen") == *released* ]] && has_seen 'granted job 0'; }
  eventually all_came
  dropped=$(grep -oE '[0-9]+ events' "$said" | cut -d' ' -f1)
  assert_equal "$(($(wc -l < "$seen") + dropped))" 20002
}

@test "a reclaimed lease is reported as granted again" {
  watch
  hold job --reclaim "${short[@]}"

  redis FLUSHALL > /dev/null

  eventually has_as_many_as 2
  assert_equal "$(events)" $'granted job 0\ngranted job 0'
}
