#!/usr/bin/env bats
# dlock watch: how events are printed, and slow or lost readers. Also run on a server. Which
# events there are is tested in tests/contract; what is specific to one store is in
# watch_local.bats and watch_redis.bats.

setup() {
  load support
  load watching
  use_private_store
}

@test "the events of a run have the documented keys, name it and say how it ended" {
  watch

  dlock run job -- sh -c 'exit 3' || true

  assert_events 'granted job 0' 'released job 1'
  assert_equal "$(jq -r 'keys_unsorted | join(" ")' "$seen" | sort -u)" \
    'time event name fence host pid user command label exit_code signal duration_ms free message'
  assert_equal "$(jq -rs '[.[0].message, (.[1].message | split(",")[0]), (map(.host) | unique[]), (map(.user) | unique[])] | join("|")' "$seen")" \
    "sh -c 'exit 3'|exit 3|$(uname -n)|$(id -un)"
  assert_equal "$(jq -c '[.exit_code, .signal, .duration_ms >= 0, .command]' "$seen")" \
    $'[null,null,false,["sh","-c","exit 3"]]\n[3,null,true,["sh","-c","exit 3"]]'
  jq -es '(map(.fence) | unique | length == 1) and all(.time | test("^2[0-9]{3}-.*T.*\\.[0-9]{3}Z$"))' "$seen" > /dev/null
}

@test "without --json, each event is a line of text" {
  dlock watch -v > "$seen" 2> "$said" 3>&- &
  eventually grep -q watching "$said"

  dlock run job -- true

  eventually grep -q released "$seen"
  grep -qE "^2.*T.*Z  granted   job  $(uname -n), pid [0-9]+, 0 free: true$" "$seen"
  grep -qE "^2.*T.*Z  released  job  $(uname -n), pid [0-9]+, 1 free: exit 0, took " "$seen"
}

@test "two hundred grants are reported once each and in order" {
  local rounds=${DLOCK_TEST_ROUNDS:-50}
  watch job

  for ((i = 0; i < 4; i++)); do
    for ((j = 0; j < rounds; j++)); do dlock run --wait 1m job -- true; done 3>&- &
    workers+=($!)
  done
  wait "${workers[@]}"

  has_released_all() { (($(grep -c '"event":"released"' "$seen") == 4 * rounds)); }
  eventually has_released_all
  assert_equal "$(jq -r 'select(.event == "granted").fence' "$seen" | wc -l)" $((4 * rounds))
  jq -r 'select(.event == "granted").fence' "$seen" | sort -c -n -u
  # Each is released before the next is granted.
  assert_equal "$(jq -r 'select(.event == "granted" or .event == "released").event' "$seen" |
    paste -d' ' - - | sort | uniq -c | tr -s ' ')" " $((4 * rounds)) granted released"
}

@test "watch piped into head ends when head exits" {
  mkfifo "$BATS_TEST_TMPDIR/fifo"
  dlock watch -v > "$BATS_TEST_TMPDIR/fifo" 2> "$said" 3>&- &
  watcher=$!
  head -n 1 "$BATS_TEST_TMPDIR/fifo" > "$seen" 3>&- &
  eventually grep -q watching "$said"

  dlock run job -- true

  # SIGPIPE, as for any program whose reader has exited. No further event is needed.
  assert_exits 141 "$watcher"
  grep -q granted "$seen"
}

@test "a stopped reader delays no one and misses no events" {
  watch_slowly
  kill -STOP "$reader"

  # More events than the pipe can hold, and then one that watch itself has to detect.
  for i in {1..20}; do dlock run job -- true; done
  dlock acquire lapsing --ttl 2s > /dev/null
  eventually is_free lapsing
  freed=$(date +%s%3N)
  # A busy machine may see it a little later than status does, but not so much.
  never_within 2000 has_ended "$watcher"
  kill -CONT "$reader"

  eventually has_seen 'expired lapsing 1'
  assert_equal "$(events | sort | uniq -c | tr -s ' ')" \
    "$(printf ' %s\n' '1 expired lapsing 1' '20 granted job 0' '1 granted lapsing 0' '20 released job 1')"
  # Its time is that of the end, not when there was room in the pipe. Two clocks are read.
  mapfile -t times < <(jq -r 'select(.name == "lapsing").time' "$seen")
  granted=$(date -d "${times[0]}" +%s%3N)
  assert_between "$(date -d "${times[1]}" +%s%3N)" $((granted + 1990)) $((freed + 1900))
}

@test "watch ends if its reader exits while the pipe is full" {
  watch_slowly
  kill -STOP "$reader"
  for i in {1..20}; do dlock run job -- true; done

  kill -KILL "$reader"

  assert_exits 141 "$watcher"
}

@test "watch exits with 69 if standard output cannot be written" {
  dlock watch -v > /dev/full 2> "$said" 3>&- &
  watcher=$!
  eventually grep -q watching "$said"

  dlock run job -- true

  assert_exits 69 "$watcher"
  grep -q 'cannot write to standard output' "$said"
}
