#!/usr/bin/env bats
# `dlock break` on a Redis server.
# shellcheck disable=SC2034  # the helpers read last_left and set holder, command, waiter

setup() {
  load support
  load ../faults/redis
  use_redis_store --appendonly yes --appendfsync always
  next=$BATS_TEST_TMPDIR/next
}

short=(--ttl 3s --store-timeout 900ms)  # for leases that have to expire

# Asserts that the run ended because its lease was broken.
assert_broken() {
  assert_exits 76 "$holder"
  has_ended "$command"
  assert_equal "$(jq -r '"\(.outcome) \(.reason) \(.protected)"' "$report")" 'lost broken false'
}

# True if the holder listens for a break. No other client blocks in these tests.
listens() { [[ $(redis INFO clients | tr -d '\r') == *blocked_clients:1* ]]; }

@test "a run in its first second, without a second connection, or with --reclaim and --on-outage run, notices a break as well" {
  # A renewal is due after 200 s.
  hold job --report "$report" --ttl 10m
  timeout 60 dlock break --yes job
  assert_broken

  hold job --report "$report" --reclaim --on-outage run

  dlock break --yes job

  assert_broken

  redis ACL SETUSER dlock -blpop
  hold job --report "$report" "${short[@]}"

  dlock break --yes job

  assert_broken
}

@test "a run notices a break at once, before a renewal, and listens again after its second connection was closed" {
  hold job --report "$report" --ttl 60s
  eventually listens
  last_left=$(left_of job)
  redis CLIENT KILL TYPE normal SKIPME yes
  eventually has_been_renewed job # which is due after 20 s
  eventually listens
  begin=$(now_ms)

  dlock break --yes job

  # in time: the next renewal is due 20 s after the last one
  assert_between $(($(now_ms) - begin)) 0 15000
  assert_broken
}

@test "a run closes its second connection when it ends, and one of less than a second opens none" {
  before=$(redis INFO stats | sed -n 's/^total_connections_received:\([0-9]*\).*/\1/p')

  dlock run job -- true

  after=$(redis INFO stats | sed -n 's/^total_connections_received:\([0-9]*\).*/\1/p')
  assert_equal $((after - before)) 2  # one of them is that of the second INFO

  hold job
  eventually listens

  let_go
  assert_exits 0 "$holder"

  refute listens
  # This is the connection of the command that lists them.
  assert_equal "$(redis CLIENT LIST TYPE normal | wc -l)" 1
}

@test "break deletes the key of another program, which has no fence, for a waiter as well" {
  redis SET 'dlock:{job}' another NX PX 60000

  run dlock break --yes --fence 7 job

  assert_status 1
  assert_equal "$(redis GET 'dlock:{job}')" another

  run dlock -v break --yes job

  assert_status 0
  assert_output_contains 'broken: another program'
  is_free job

  redis SET 'dlock:{job}' another NX PX 60000
  queue job -- touch "$next"

  dlock break --yes job

  eventually test -e "$next"
}

@test "a break leaves no notice and no key without a time to live, and works with full memory" {
  hold job --report "$report"
  redis CONFIG SET maxmemory 1
  run dlock break --yes job
  assert_status 0
  assert_broken
  redis CONFIG SET maxmemory 0
  assert_equal "$(redis --scan --pattern '*:b:*')" ''

  dlock run --min-hold 1h other -- true
  dlock break --yes other
  for key in $(redis --scan); do
    assert_between "$(redis PTTL "$key")" 1 2864800000
  done
}

# --- By force ---

@test "--force says that two commands can run, and wants --yes where there is no terminal" {
  hold job

  run dlock break --force job < /dev/null
  assert_status 64
  run env SHELL=/bin/sh TERM=dumb script -qec 'dlock break --force job' /dev/null <<< n
  assert_output_contains 'If its machine is alive, this command goes on beside the next one. Free the lock at once? [y/N]'
  assert_output_contains 'cancelled'

  is_held job
}
