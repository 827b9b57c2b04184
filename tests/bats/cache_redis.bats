#!/usr/bin/env bats
# `dlock cache` on a Redis server: its keys, full memory, and an unavailable server.

setup() {
  load support
  load ../faults/redis
  use_redis_store
  cd "$BATS_TEST_TMPDIR" || return
  head -c 3000000 /dev/urandom > random
}

keys_of() { redis --scan --pattern "dlock:{cache:$1}:v*" | sort; }  # <key>

@test "a large value has two keys, which expire, and which a new value and --forget remove" {
  dlock cache --ttl 1h --stale 1h big -- cat random | cmp - random
  mapfile -t keys < <(keys_of big)
  assert_equal "${#keys[@]}" 2
  for key in "${keys[@]}"; do
    left=$(redis PTTL "$key")
    ((left > 7100000 && left <= 7200000))
  done
  dlock cache --forget big
  assert_equal "$(keys_of big)" ''

  for _ in 1 2; do dlock cache --ttl 1ms --stale 1h big -- cat random > /dev/null; done
  assert_equal "$(keys_of big | wc -l)" 2
  dlock cache big -- echo small
  assert_equal "$(keys_of big)" 'dlock:{cache:big}:v'
}

@test "a value that is partly evicted, modified, or larger than --max-size is made again, with few commands" {
  dlock cache big -- cat random > /dev/null
  redis DEL "$(keys_of big | tail -n 1)"

  dlock cache big -- echo new > printed 2> said

  assert_equal "$(cat printed)" new
  run cat said
  assert_one_line
  assert_output_contains 'the stored value is incomplete'
  assert_equal "$(dlock cache big -- echo other)" new

  redis FLUSHALL
  dlock cache report -- echo value
  redis HSET 'dlock:{cache:report}:v' data wrong!

  assert_equal "$(dlock cache report -- echo new 2> /dev/null)" new

  redis FLUSHALL
  dlock cache big -- cat random > /dev/null
  before=$(calls_of getrange)

  dlock cache --max-size 1MB big -- echo new > printed 2> said

  assert_equal "$(cat printed)" new
  run cat said
  assert_one_line
  assert_output_contains '3000000 bytes are stored, more than 1000000 (--max-size)'
  assert_equal "$(calls_of getrange)" "$before"

  redis FLUSHALL
  dlock cache big -- cat random > /dev/null
  redis HSET 'dlock:{cache:big}:v' size 500000000
  before=$(calls_of getrange)

  assert_equal "$(timeout 60 dlock cache --max-size 500MB big -- echo new 2> /dev/null)" new

  assert_between $(($(calls_of getrange) - before)) 3 80
}

@test "with full memory, cache exits with 69 at once, or prints what it cannot store with one line, and no key of the value stays" {
  redis CONFIG SET maxmemory 1

  run timeout 60 dlock cache report -- touch ran

  assert_message 69 OOM
  refute test -e ran

  redis CONFIG SET maxmemory 0
  rm -f go
  dlock cache report -- sh -c 'until [ -e go ]; do sleep 0.05; done; echo value' > printed 2> said 3>&- &
  caller=$!
  eventually dlock status cache:report
  redis CONFIG SET maxmemory 1
  : > go

  assert_exits 0 "$caller"

  assert_equal "$(cat printed)" value
  run cat said
  assert_one_line
  assert_output_contains 'not cached'
  assert_output_contains OOM
  assert_equal "$(redis EXISTS 'dlock:{cache:report}')" 0

  redis CONFIG SET maxmemory 0
  rm -f go
  redis CONFIG SET maxmemory-policy noeviction
  for size in 5 3000000; do
    run bash -c 'dlock cache report -- sh -c "echo run >> runs; until [ -e go ]; do sleep 0.05; done; head -c $1 random" > printed' - "$size" 3>&- &
    caller=$!
    eventually test -e runs
    redis CONFIG SET maxmemory 1
    : > go
    wait "$caller"

    redis CONFIG SET maxmemory 0
    head -c "$size" random | cmp - printed
    assert_equal "$(keys_of report)" ''
    rm runs go
  done
  # No part of the large value was sent.
  assert_equal "$(calls_of setrange)" 0
}

@test "if the server is unavailable, cache exits with 69 unless -w waits, or prints what it cannot store" {
  dlock --store-timeout 1s cache report -- \
    sh -c 'touch started; until [ -e go ]; do sleep 0.05; done; echo value' > printed 2> said 3>&- &
  caller=$!
  eventually test -e started
  stop_redis
  : > go

  assert_exits 0 "$caller"

  assert_equal "$(cat printed)" value
  grep -q 'not cached: cannot reach' said

  run timeout 60 dlock cache report -- echo value
  assert_message 69
  run timeout 60 dlock cache -w 300ms report -- echo value
  assert_status 69
  dlock cache -w 1m report -- echo value > printed 3>&- &
  caller=$!
  start_redis

  assert_exits 0 "$caller"
  assert_equal "$(cat printed)" value
}
