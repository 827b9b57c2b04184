#!/usr/bin/env bats
# What a run makes of a promotion of a standby: a lease that is restored or lost, and an old
# primary that comes back.
# shellcheck disable=SC2034  # variables that the helpers use and set

setup() {
  load ../bats/support
  load ../bats/postgres
  use_postgres_store
  start_standby 2 1
  export PGPASSWORD=$postgres_password
  DLOCK_STORE=postgres://app@127.0.0.1:${postgres_port[1]},127.0.0.1:${postgres_port[2]}/app
  dlock run job -- true
  eventually is_known_to_standby
}

lease=(--ttl 6s --store-timeout 1s)

# Also the end of the run.
is_known_to_standby() { [[ $(version_on 2) == "$(version_on 1)" ]]; }
version_on() { postgres_sql "$1" "SELECT version FROM dlock.lock WHERE name = 'job'"; }  # <server>

# Holds a lock with a lease that the standby does not get to know, and promotes it.
fail_over_without_the_lease() {
  end_postgres 2
  hold job --ttl 20s --report "$report"
  halt "$holder"
  crash_postgres 1
  start_postgres 2
  promote_postgres 2
}

@test "a lease that the promoted standby lacks is restored unasked if no other run got the lock" {
  fail_over_without_the_lease

  kill -CONT "$holder"

  eventually is_held job
  let_go

  assert_exits 0 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.protected)"')" 'ran true'
}

@test "a lease that the promoted standby lacks is lost by the failover if another run did" {
  fail_over_without_the_lease
  next=$(dlock run job -- printenv DLOCK_FENCE)
  kill -CONT "$holder"

  assert_exits 76 "$holder"

  assert_equal "$(of_report '"\(.outcome) \(.reason)"')" 'lost failed over'
  ((next > $(of_report .fence)))
}

# Then the fence of the other run is smaller.
@test "a lease that the promoted standby lacks is lost if another run did, although its clock is behind" {
  cc -shared -fPIC -O1 -o "$postgres_root/clock.so" "$DLOCK_SOURCE/tests/chaos/clock.c"
  echo -20000 > "$postgres_root/offset"
  chmod 644 "$postgres_root/offset"
  postgres_environment=(LD_PRELOAD="$postgres_root/clock.so" CHAOS_CLOCK="$postgres_root/offset")
  fail_over_without_the_lease
  next=$(dlock run job -- printenv DLOCK_FENCE)
  kill -CONT "$holder"

  assert_exits 76 "$holder"

  assert_equal "$(of_report '"\(.outcome) \(.reason) \(.protected)"')" 'lost failed over false'
  ((next < $(of_report .fence)))
}

@test "a run that has seen a promotion does not go back to the old primary" {
  # Neither the order in the URL matters nor how many digits of a number are sent.
  sql 'ALTER ROLE app SET extra_float_digits = -15'
  old_first=$DLOCK_STORE
  DLOCK_STORE=postgres://app@127.0.0.1:${postgres_port[2]},127.0.0.1:${postgres_port[1]}/app
  hold job "${lease[@]}" --report "$report" 2> "$BATS_TEST_TMPDIR/said"
  promote_postgres 2
  # Its lease is on both. The session with the old primary is terminated, so that it looks around.
  sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'" > /dev/null
  eventually is_renewed_on_the_new_one
  grep -q '^dlock: job: warning: 127.*also says that it is the primary' "$BATS_TEST_TMPDIR/said"

  dlock --store "$old_first" run other -- true
  assert_equal "$(postgres_sql 2 "SELECT count(*) FROM dlock.lock WHERE name = 'other'")" 1
  freeze_postgres 2

  assert_exits 76 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason)"')" 'lost unconfirmed'
}
is_renewed_on_the_new_one() {
  local version
  version=$(version_on 2)
  : "${seen:=$version}"
  ((version > seen))
}

@test "with --replicas all an old primary that has lost a standby grants nothing beside the new one" {
  start_standby 3 1
  commits_wait_for 1 'ANY 1 (s2, s3)' 2
  run dlock run --replicas all job -- echo started
  assert_status 69
  assert_output_contains 'its commits wait for 1 standby of the 2 in synchronous_standby_names'
  postgres_set 1 synchronous_standby_names ''
  run dlock doctor
  assert_output_contains '2 standbys are connected, and commits wait for none'
  postgres_set 1 synchronous_standby_names absent
  run dlock doctor
  assert_output_contains 'every commit hangs: of the standbys that it waits for, 0 are connected; synchronous_standby_names is absent'
  commits_wait_for 1 'ANY 2 (s2, s3)' 2
  hold job --replicas all "${lease[@]}" --report "$report"

  promote_postgres 2
  end=$(lease_end_on_postgres 1 job)
  run dlock run --store "$(postgres_url 1)" --replicas all --store-timeout 500ms other -- echo started
  assert_message 69

  # Nor does it renew what it has granted.
  (($("$BATS_TEST_DIRNAME/last_death" "$command") < end))
  assert_exits 76 "$holder"
}

@test "standbys alone are no store, and are waited for with -w" {
  crash_postgres 1
  run dlock run --store-timeout 500ms job -- echo started
  assert_message 69 "no primary: cannot reach 127.0.0.1:${postgres_port[1]}"
  assert_output_contains "127.0.0.1:${postgres_port[2]} is a standby"

  dlock run --store-timeout 500ms --wait 20s job -- echo started > "$BATS_TEST_TMPDIR/out" 3>&- &
  waiter=$!
  never_within 300 test -s "$BATS_TEST_TMPDIR/out"
  promote_postgres 2
  assert_exits 0 "$waiter"
  assert_equal "$(< "$BATS_TEST_TMPDIR/out")" started
}
