#!/usr/bin/env bats
# dlock watch: what is specific to the local store and to none:.

setup() {
  load support
  load watching
  use_private_store
  store=${DLOCK_STORE#local:}
}

@test "no events are written while there is no watcher" {
  dlock run job -- true
  [[ ! -e $store/events ]]

  watch
  dlock run job -- true
  eventually has_as_many_as 2
  kill "$watcher"
  eventually has_ended "$watcher"
  size=$(stat -c %s "$store/events")
  dlock run job -- true

  assert_equal "$(stat -c %s "$store/events")" "$size"
}

@test "no events are written after a watch was killed" {
  watch
  kill -KILL "$watcher"
  eventually has_ended "$watcher"

  dlock run job -- true

  assert_equal "$(wc -c < "$store/events")" 0
}

@test "a store that is removed is watched again when it is back, and watch says so" {
  watch
  remove "$store"

  eventually grep -q 'events are missed from now on' "$said"
  eventually grep -q 'watching again' "$said"
  dlock run job -- true

  assert_events 'granted job 0' 'released job 1'
}

@test "a run gets a watched lock even if events cannot be written" {
  watch
  rm "$store/events"
  mkdir "$store/events"  # nothing can be written there

  dlock run job -- true
}
