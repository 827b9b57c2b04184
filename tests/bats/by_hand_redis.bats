#!/usr/bin/env bats
# Locks by hand and fence registers on a Redis server, as a user with the fewest permissions.

setup() {
  load support
  load ../faults/by_hand
  load ../faults/redis
  use_redis_store
  cd "$BATS_TEST_TMPDIR" || return
}

@test "the records of a lease outlast it, however long its TTL" {
  dlock acquire -s -t 60d job
  dlock acquire -s -t 30s job
  dlock run -s job -- true

  local left
  left=$(left_of job)

  ((left > 60 * 86400000 - 60000))
  (($(redis PTTL 'dlock:{job}:h') > left))
  (($(redis PTTL 'dlock:{job}:s') > left))
}

@test "acquire sets the key to the token, as SET NX PX would, and check asks the server" {
  token=$(dlock acquire -t 20s job)

  assert_equal "$(redis GET 'dlock:{job}')" "$token"
  assert_between "$(left_of job)" 10000 20000

  redis FLUSHALL
  run dlock run job -- dlock check --min-validity 40s
  assert_message 76 'job: held by this grant only for another '
  fence=$(dlock acquire --json job | jq .fence)
  dlock check job --fence "$fence" --min-validity 10s

  redis DEL 'dlock:{job}'

  run dlock check job --fence "$fence"
  assert_message 76 'job: no longer held: the lock is free'
}

# --- --for-pid ---

@test "a lock that is kept for a process outlasts its TTL, until the process is killed or the lease released" {
  for_a_process -t 3s --store-timeout 900ms job
  never_within 4000 is_free job
  dlock release job --token "$token"
  dlock acquire job -t 1h
  eventually has_ended "$keeper"
  kill -KILL "$beneficiary"
  # The next holder is not affected.
  assert_between "$(left_of job)" 1000000 3600000

  for_a_process -t 60s other
  kill -KILL "$beneficiary"
  eventually is_free other
  eventually has_ended "$keeper"
}

@test "a keeper survives a restart and a silence of its server" {
  stop_redis
  start_redis --appendonly yes --appendfsync always
  for_a_process -t 4s --store-timeout 1s job
  for_a_process -t 60s --store-timeout 1s other
  restart_redis
  never_within 4500 is_free job

  redis_freezes
  kill -KILL "$beneficiary"
  never_within 300 has_ended "$keeper"
  redis_goes_on
  eventually has_ended "$keeper"
  is_free other
}

# --- Fence registers ---

@test "a fence register does not expire, and is not a lock; another key is refused with 78" {
  dlock fence disk 10

  assert_equal "$(redis TTL 'dlock:{disk}:f')" -1
  assert_equal "$(dlock list)" ''

  redis SET 'dlock:{disk}:f' nonsense
  run dlock fence disk 1
  assert_message 78 'dlock:{disk}:f'

  redis DEL 'dlock:{disk}:f'
  redis RPUSH 'dlock:{disk}:f' 1
  run dlock fence disk 1
  assert_message 78 WRONGTYPE
}
