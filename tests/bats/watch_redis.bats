#!/usr/bin/env bats
# dlock watch: what is specific to a server.

setup() {
  load support
  load ../faults/redis
  load watching
  use_redis_store
}

short=(--ttl 3s --store-timeout 900ms)

@test "watch reports that it lost the connection, or the server was down, and that it reconnected" {
  watch
  redis CLIENT KILL TYPE pubsub > /dev/null
  eventually grep -q 'events are missed from now on' "$said"
  eventually grep -q 'watching again' "$said"
  dlock run job -- true
  assert_events 'granted job 0' 'released job 1'

  stop_redis
  has_missed_twice() { (($(grep -c 'events are missed from now on' "$said") == 2)); }
  eventually has_missed_twice
  start_redis
  watches_again() { (($(grep -c 'watching again' "$said") == 2)); }
  eventually watches_again
  has_missed_twice
  dlock run job -- true
  assert_events 'granted job 0' 'released job 1' 'granted job 0' 'released job 1'
}

@test "a user without permission to subscribe cannot watch (77) but can take locks" {
  redis ACL SETUSER limited on '>secret' '~dlock:*' resetchannels +@all > /dev/null
  unset DLOCK_PASSWORD_FILE
  export DLOCK_USER=limited DLOCK_PASSWORD=secret

  run dlock watch

  assert_message 77
  dlock run job -- true
}

@test "whoever may only publish can forge no event" {
  redis ACL SETUSER mallory on '>secret' resetkeys '&*' -@all +publish > /dev/null
  watch
  tell() { redis-cli -s "$redis_socket" --user mallory --pass secret --no-auth-warning PUBLISH 'dlock:{job}:e' "$1" > /dev/null; }
  tell 'granted 7 30000 0 1760000000000000 {"host":"prod-1","command":["./deploy.sh"]}'
  tell 'broken 7 0 0 1760000000000000 {}'
  tell 'nonsense'

  dlock run job -- true

  assert_events 'granted job 0' 'released job 1'
  tell "released 7 0 1 $(date +%s%6N) {}"
  never_within 1500 has_as_many_as 3
}

@test "events that a reader cannot keep up with are dropped, and their number is reported" {
  watch_slowly
  kill -STOP "$reader"
  long=$(head -c 200 /dev/zero | tr '\0' x)
  awk -v long="$long" 'BEGIN { for (i = 0; i < 20000; i++)
    printf "XADD dlock:{job}:e * e \"released %d 0 1 1900000000000000 {\\\"command\\\":[\\\"%s\\\"]}\"\n", i, long }' \
    > "$BATS_TEST_TMPDIR/events"

  redis --pipe < "$BATS_TEST_TMPDIR/events" > /dev/null
  redis PUBLISH 'dlock:{job}:e' '' > /dev/null
  reads() { (($(redis INFO commandstats | grep -oP 'xrange:calls=\K[0-9]+') > $1)); }
  eventually reads 20
  dlock run job -- true
  runs=1
  eventually reads 22  # what was read before has been passed on, or dropped
  kill -CONT "$reader"
  says_what_was_dropped() {
    dlock run job -- true
    runs=$((runs + 1))
    grep -qE '^dlock: [0-9]+ events were dropped: standard output is too slow$' "$said"
  }

  eventually says_what_was_dropped

  all_came() {
    dropped=$(grep -oE '[0-9]+ events' "$said" | cut -d' ' -f1 | paste -sd +)
    (($(wc -l < "$seen") + dropped == 20000 + 2 * runs))
  }
  eventually all_came
}

@test "a run is reported as lost when another program has taken its lock, as granted again when reclaimed, and never as expired" {
  watch
  hold job --reclaim "${short[@]}"
  hold other "${short[@]}"
  kill -KILL "$holder"
  eventually has_seen 'expired other 1'
  [[ $(events) != *'expired job'* ]]

  redis DEL 'dlock:{job}' > /dev/null
  granted_again() { (($(events | grep -c '^granted job 0$') == 2)); }
  eventually granted_again

  hold taken "${short[@]}"
  redis SET 'dlock:{taken}' another PX 60000 > /dev/null
  eventually has_seen 'lost taken 0'
}
