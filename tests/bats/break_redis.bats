#!/usr/bin/env bats
# Taking a lock on a Redis server from its holders.
# shellcheck disable=SC2016  # commands are shells that expand for themselves
# shellcheck disable=SC2034,SC2154  # for and from the helpers: last_left; holder, command, waiter

setup() {
  load support
  load ../faults/locks
  load ../faults/redis
  use_redis_store --appendonly yes --appendfsync always
  report=$BATS_TEST_TMPDIR/report
  next=$BATS_TEST_TMPDIR/next
}

teardown() {
  stop_redis
  kill_leftovers
}

refute() { ! "$@"; }

short=(--ttl 2s --store-timeout 400ms)  # for leases that have to run out

fence_of() { look job ".holders[] | select(.pid == $1) | .fence"; }  # <pid>

# Asserts that the run was ended because somebody broke its lease.
assert_broken() {
  assert_exits 76 "$holder"
  has_ended "$command"
  assert_equal "$(jq -r '"\(.outcome) \(.reason) \(.protected)"' "$report")" 'lost broken false'
}

is_marked() { dlock status job | grep -qF '(broken)'; }

# A holder that listens is the only client that blocks here.
listens() { [[ $(redis INFO clients | tr -d '\r') == *blocked_clients:1* ]]; }

@test "the command of a broken holder ends, and its dlock exits with 76 for that reason" {
  hold job --report "$report"

  run dlock break --yes job

  assert_status 0
  assert_equal "$output" ''
  assert_broken
  is_free job
}

@test "a run of more than a second is told at once, and does not wait for a renewal" {
  hold job --report "$report" --ttl 60s
  eventually listens
  begin=$(now_ms)

  dlock break --yes job

  assert_between $(($(now_ms) - begin)) 0 900
  assert_broken
}

@test "a run in its first second is told soon after that" {
  hold job --report "$report" --ttl 60s

  EVENTUALLY_MS=2500 eventually dlock break --yes job

  assert_broken
}

@test "with --reclaim and --on-outage run the command of a broken holder ends, too" {
  hold job --report "$report" --reclaim --on-outage run

  dlock break --yes job

  assert_broken
}

@test "without a second connection the next renewal tells" {
  redis ACL SETUSER dlock -blpop
  hold job --report "$report" "${short[@]}"

  dlock break --yes job

  assert_broken
}

@test "a run that listens renews at once when that connection is closed" {
  hold job --ttl 60s
  eventually listens
  last_left=$(left_of job)

  redis CLIENT KILL TYPE normal SKIPME yes

  EVENTUALLY_MS=2000 eventually has_been_renewed job
  let_go
  assert_exits 0 "$holder"
}

@test "a run listens again after its connection was closed" {
  hold job --report "$report" --ttl 60s
  eventually listens
  redis CLIENT KILL TYPE normal SKIPME yes
  eventually refute listens
  eventually listens

  dlock break --yes job

  assert_broken
}

@test "the second connection is gone with the run" {
  hold job
  eventually listens

  let_go
  assert_exits 0 "$holder"

  refute listens
  # That which asks is there.
  assert_equal "$(redis CLIENT LIST TYPE normal | wc -l)" 1
}

@test "a run of less than a second has one connection" {
  before=$(redis INFO stats | sed -n 's/^total_connections_received:\([0-9]*\).*/\1/p')

  dlock run job -- true

  after=$(redis INFO stats | sed -n 's/^total_connections_received:\([0-9]*\).*/\1/p')
  assert_equal $((after - before)) 2  # one is that of the question
}

@test "the next in line is granted the lock when the command has ended" {
  hold job --report "$report"
  queue job -- touch "$next"

  dlock break --yes job

  eventually test -e "$next"
  assert_exits 0 "$waiter"
  has_ended "$command"
}

@test "a holder that is stopped has the lock until its lease ends, and its command is dead by then" {
  hold job "${short[@]}"
  kill -STOP "$holder"

  run dlock break --yes job

  assert_status 0
  has_ended "$command"
}

@test "without --fence all who share a lock lose it" {
  hold job --shared
  first=$holder
  hold job --shared

  dlock break --yes job

  assert_exits 76 "$first"
  assert_exits 76 "$holder"
}

@test "--fence takes a slot from that holder alone" {
  hold job --slots 2
  first=$holder
  hold job --slots 2
  second=$holder

  dlock break --yes --fence "$(fence_of "$first")" job

  assert_exits 76 "$first"
  assert_equal "$(look job '[.holders[].pid] | @csv')" "$second"
}

@test "a fence that nobody holds is 1, and nothing happens" {
  hold job

  run dlock break --yes --fence 7 job

  assert_status 1
  assert_equal "$output" 'dlock: job: not held by fence 7'
  refute is_marked
}

@test "a lock that nobody holds is 1" {
  run dlock break --yes job

  assert_status 1
  assert_equal "$output" 'dlock: job: not held'
}

@test "a foreign holder's key is deleted, and -v says who it was" {
  redis SET 'dlock:{job}' somebody NX PX 60000

  run dlock -v break --yes job

  assert_status 0
  assert_output_contains 'broken: a foreign holder'
  is_free job
}

@test "who waits for a foreign holder gets the lock" {
  redis SET 'dlock:{job}' somebody NX PX 60000
  queue job -- touch "$next"

  dlock break --yes job

  EVENTUALLY_MS=2000 eventually test -e "$next"
}

@test "a foreign holder has no fence" {
  redis SET 'dlock:{job}' somebody NX PX 60000

  run dlock break --yes --fence 7 job

  assert_status 1
  assert_equal "$(redis GET 'dlock:{job}')" somebody
}

@test "a lock that is held on for --min-hold is freed at once" {
  dlock run --min-hold 1h job -- true
  is_held job

  dlock break --yes job

  is_free job
}

@test "--min-hold does not keep a lock that was broken" {
  hold job --min-hold 1h --report "$report"

  dlock break --yes job

  is_free job
  assert_broken
}

@test "a lease can be broken with memory full" {
  hold job --report "$report"
  redis CONFIG SET maxmemory 1

  run dlock break --yes job

  assert_status 0
  assert_broken
}

@test "break leaves no key without a time to live" {
  hold job --report "$report"
  dlock break --yes job
  dlock run --min-hold 1h other -- true
  dlock break --yes other

  for key in $(redis --scan); do
    assert_between "$(redis PTTL "$key")" 1 2592000000
  done
}

@test "what the holder was told does not outlast the run" {
  hold job
  dlock break --yes job
  assert_exits 76 "$holder"

  assert_equal "$(redis --scan --pattern '*:b:*')" ''
}

@test "--json prints those whom the lock was taken from" {
  hold job
  fence=$(fence_of "$holder")

  run dlock --json break --yes job

  assert_status 0
  assert_equal "$(json 'map(.fence) | @csv')" "$fence"
}

@test "a server that cannot be reached is 69" {
  stop_redis

  run dlock break --yes job

  assert_status 69
  assert_one_line
}

@test "a server that does not let this user write is 77" {
  hold job
  redis ACL SETUSER dlock -hset

  run dlock break --yes job

  assert_status 77
  redis ACL SETUSER dlock +hset
}
