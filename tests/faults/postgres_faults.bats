#!/usr/bin/env bats
# PostgreSQL servers, standbys, poolers and networks that fail: locks that survive, locks that
# are lost, and never two holders. When a command died and when its lease ends are what the
# kernel and the server say.
# shellcheck disable=SC2086  # words

setup() {
  load ../bats/support
  load ../bats/postgres
  faults=$BATS_TEST_DIRNAME
}

clean_up() {
  end_relay
  [[ -z ${full:-} ]] || { stop_postgres; umount "$full" && rmdir "$full"; }
}

brief=(--ttl 3s --store-timeout 500ms)
lease=(--ttl 6s --store-timeout 1s)

# Prints a number that grows with each step of the lock, and so with each renewal.
version_of() { postgres_sql "${2:-1}" "SELECT version FROM dlock.lock WHERE name = '$1'"; }  # <name> [<server>]
# A holder that is not renewed within its lease loses it, so this needs no bound.
await_renewal() {  # <name> [<server>]
  last_version=$(version_of "$1" "${2:-1}")
  eventually was_renewed "$1" "${2:-1}"
}
was_renewed() { (($(version_of "$1" "$2") > last_version)); }

# Sets $end to when the lease of the lock ends, right after a renewal: the next one is a third of
# the lease away.
note_end_of_lease() {
  await_renewal job
  end=$(($(date +%s%3N) + $(look job '.holders[0].expires_in_ms')))
}

# Sets $death to a process that writes when the holder's command is dead to a file.
watch_the_command() {
  "$faults/last_death" "$command" > "$BATS_TEST_TMPDIR/death" 3>&- &
  death=$!
}

# What the next holder does: it writes when it is there.

# Puts a network that can fail before the server. Sets $relayed to its URL there.
use_relay() {
  # The mark is removed because it is meant for processes that dlock starts.
  env -u DLOCK_TEST_ID "$faults/postgres_relay" "$BATS_TEST_TMPDIR/relay" "$BATS_TEST_TMPDIR/rule" \
    "$postgres_sockets/.s.PGSQL.${postgres_port[1]}" 3>&- &
  relay=$!
  eventually test -s "$BATS_TEST_TMPDIR/relay"
  relayed=postgres://app@127.0.0.1:$(< "$BATS_TEST_TMPDIR/relay")/app
}
network() { echo "$1" > "$BATS_TEST_TMPDIR/rule"; }
end_relay() {
  [[ -n ${relay:-} ]] || return 0
  end_processes "$relay"
  wait "$relay" 2> /dev/null || true
  relay=
}

# Makes the next write affect no row, as if another step had been faster, so the step is
# repeated under the row's lock.
lose_a_race() {
  sql "CREATE SEQUENCE IF NOT EXISTS public.races; GRANT ALL ON public.races TO app;
    CREATE OR REPLACE FUNCTION public.lose() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
      IF nextval('public.races') = 1 THEN RETURN NULL; END IF;
      RETURN NEW; END \$\$;
    CREATE OR REPLACE TRIGGER lose BEFORE INSERT OR UPDATE ON dlock.lock FOR EACH ROW EXECUTE FUNCTION public.lose();
    ALTER SEQUENCE public.races RESTART"
}

# --- One server ---

@test "a client that vanishes inside a step delays others for no longer than half its store timeout" {
  use_postgres_store
  dlock run job -- true
  use_relay
  lose_a_race
  network 'behind FOR UPDATE'

  DLOCK_STORE=$relayed dlock run --store-timeout 4s job -- touch "$order" 2> "$said" 3>&- &
  cut_off=$!
  eventually test -e "$BATS_TEST_TMPDIR/relay.cut"
  begin=$(now_ms)
  run dlock run --store-timeout 5s --wait 10s job -- touch "$ran"

  assert_status 0
  # in time: the other one has a store timeout of 4 s
  assert_between $(($(now_ms) - begin)) 0 3800
  assert_exits 69 "$cut_off"
  [[ ! -e $order ]]
}

@test "a client that is stopped inside a step delays others for no longer, and goes on as if it had failed" {
  use_postgres_store
  dlock run job -- true
  use_relay
  lose_a_race
  network 'behind FOR UPDATE'
  DLOCK_STORE=$relayed dlock run --store-timeout 3s --wait 20s job -- "${noting[@]}" "$order" late 3>&- &
  stopped=$!
  eventually test -e "$BATS_TEST_TMPDIR/relay.cut"
  halt "$stopped"

  run dlock run --store-timeout 5s --wait 10s job -- "${noting[@]}" "$order" first
  assert_status 0
  network forward
  kill -CONT "$stopped"

  assert_exits 0 "$stopped"
  assert_equal "$(paste -sd ' ' "$order")" 'first late'
}

@test "a server without free connections is unavailable to new runs, and holders renew on their own" {
  use_postgres_store -c max_connections=10 -c superuser_reserved_connections=3 -c max_wal_senders=0
  hold job "${brief[@]}" --report "$report"
  await_renewal job
  eventually takes_all_connections

  run dlock run --store-timeout 1s other -- echo started
  assert_message 69
  dlock run --wait 30s --store-timeout 1s other -- touch "$ran" 2> "$said" 3>&- &
  waiter=$!
  never_within 3500 has_ended "$holder"  # longer than its lease
  await_renewal job
  kill "${hogs[@]}"
  sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND usename = 'app'" > /dev/null

  assert_exits 0 "$waiter"
  let_go
  assert_exits 0 "$holder"
}
# Takes one more if one is free: those of clients that have left are free a moment later.
takes_all_connections() {
  ! "$postgres_programs/psql" -XqAt "$(postgres_url 1)" -c 'SELECT 1' || {
    "$postgres_programs/psql" -XqAt "$(postgres_url 1)" -c 'SELECT pg_sleep(60)' > /dev/null 2>&1 3>&- &
    hogs+=($!)
    return 1
  }
}

# --- What others do to the rows ---

@test "a state that is spoilt stops the command before its lease ends, and is refused" {
  use_postgres_store
  hold job "${lease[@]}" --report "$report"
  watch_the_command
  note_end_of_lease

  sql "UPDATE dlock.lock SET state = 'spoilt'"

  run dlock run job -- echo started
  assert_status 78
  wait "$death"
  (($(< "$BATS_TEST_TMPDIR/death") <= end))
  assert_exits 76 "$holder"
}

@test "a row that is restored from a backup harms no newer holder" {
  use_postgres_store
  hold job "${brief[@]}"
  sql 'CREATE TABLE backup AS SELECT * FROM dlock.lock'
  let_go
  assert_exits 0 "$holder"
  hold job "${brief[@]}" --report "$report"

  sql 'DELETE FROM dlock.lock; INSERT INTO dlock.lock SELECT * FROM backup'

  eventually has_ended "$holder"
  assert_exits 76 "$holder"
}

# --- Clocks ---

# The clock of the server can be set from now on.
use_server_with_clock() {
  make_postgres_root
  # The server's user cannot enter the directory of the test.
  cc -shared -fPIC -O1 -o "$postgres_root/clock.so" "$faults/../chaos/clock.c"
  clock=$postgres_root/offset
  set_clock 0
  # shellcheck disable=SC2034  # for launch_postgres
  postgres_environment=(LD_PRELOAD="$postgres_root/clock.so" CHAOS_CLOCK="$clock")
  use_postgres_store
}
set_clock() { echo "$1" > "$clock.new" && chmod 644 "$clock.new" && mv "$clock.new" "$clock"; }  # <milliseconds>

@test "a server's clock that is set back an hour makes a dead holder cost one lease, and fences grow" {
  use_server_with_clock
  hold job "${brief[@]}"
  fence=$(look job '.holders[0].fence')

  set_clock -3600000
  kill -KILL "$holder" "$command"
  next=$(dlock run --wait 30s "${brief[@]}" job -- printenv DLOCK_FENCE)

  # Otherwise it would cost the hour.
  ((next > fence))
}

@test "a server's clock that is set forward an hour ends leases early, which is noticed at the next renewal" {
  use_server_with_clock
  hold job "${lease[@]}" --report "$report"
  fence=$(look job '.holders[0].fence')

  set_clock 3600000
  next=$(dlock run --wait 5s "${lease[@]}" job -- sh -c 'sleep 4; echo "$DLOCK_FENCE"')

  ((next > fence))
  assert_exits 76 "$holder"
  assert_equal "$(of_report .outcome)" lost
}

# --- Standbys ---

# Starts a primary, 1, and a standby, 2, that each commit waits for.
use_synchronous_standby() {
  use_postgres_store
  start_standby 2 1
  commits_wait_for 1 'ANY 1 (s2)' 1
}

# Both servers, over TCP.
two_hosts() {
  export PGPASSWORD=$postgres_password
  DLOCK_STORE=postgres://app@127.0.0.1:${postgres_port[1]},127.0.0.1:${postgres_port[2]}/app
}

waits_for_standby() {
  [[ $(sql "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = 'app'") != 0 ]]
}
nobody_waits_for_standby() { ! waits_for_standby; }

@test "a grant whose commit is cancelled, or whose session is terminated, while it waits for a standby is undone" {
  use_synchronous_standby
  dlock run --replicas 1 job -- true
  for function in pg_cancel_backend pg_terminate_backend; do
    freeze_postgres 2
    dlock run --replicas 1 --store-timeout 10s job -- touch "$ran" 2> "$said" 3>&- &
    claim=$!
    eventually waits_for_standby

    sql "SELECT $function(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = 'app'" > /dev/null
    never_within 300 test -e "$ran"
    postgres_goes_on 2

    eventually has_ended "$claim"
    code=0
    wait "$claim" || code=$?
    [[ $code == 69 || $code == 0 && $function == pg_terminate_backend ]] || { cat "$said" >&2; echo "$function: $code" >&2; return 1; }
    ((code == 0)) || [[ ! -e $ran ]]
    rm -f "$ran"
    eventually is_free job
  done
}

@test "no setting of role, database or URL hides that the wait for a standby was cancelled" {
  use_synchronous_standby
  dlock run --replicas 1 job -- true
  store=$DLOCK_STORE
  for setting in 'ROLE app SET client_min_messages = error' 'DATABASE app SET client_min_messages = error' \
    'ROLE app SET synchronous_commit = local'; do
    sql "SET synchronous_commit = local; ALTER $setting"
    assert_cancelled_grant_is_noticed
    sql "SET synchronous_commit = local; ALTER ${setting%% SET*} RESET ALL"
  done
  DLOCK_STORE="$store&options=-c%20client_min_messages%3Derror"
  assert_cancelled_grant_is_noticed
  DLOCK_STORE=$store
  # Nor do other verbs that promise a durable answer say yes.
  sql 'SET synchronous_commit = local; ALTER ROLE app SET client_min_messages = error'
  for verb in 'acquire other' 'fence disk 7' 'limit api 5/1h'; do assert_cancelled_grant_is_noticed "$verb"; done
}

assert_cancelled_grant_is_noticed() {  # [<verb with its words>]
  freeze_postgres 2
  dlock --replicas 1 --store-timeout 10s ${1:-run job -- touch "$ran"} > "$said" 2>&1 3>&- &
  claim=$!
  eventually waits_for_standby
  sql "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = 'app'" > /dev/null
  eventually is_unconfirmed
  postgres_goes_on 2
  assert_exits 69 "$claim"
  assert_equal "$(grep -c 'did not confirm' "$said")" 1
  [[ ! -e $ran ]]
  eventually is_free job
}
# The withdrawal of the claim waits for the standby as well.
is_unconfirmed() { grep -q 'did not confirm' "$said" || nobody_waits_for_standby; }

@test "without the standby that --replicas needs nothing is granted, and no session is left waiting" {
  use_synchronous_standby
  dlock run --replicas 1 job -- true
  freeze_postgres 2

  run timeout 60 dlock run --replicas 1 --store-timeout 1s job -- touch "$ran"

  assert_message 69
  [[ ! -e $ran ]]
  eventually nobody_waits_for_standby
  run dlock run --replicas 1 --store-timeout 1s job -- touch "$ran"
  assert_status 69
}

@test "--replicas is refused by a server that waits for fewer standbys" {
  use_postgres_store

  run dlock run --replicas 1 job -- touch "$ran"
  assert_message 69 synchronous_standby_names
  # Nothing else is written, either.
  for verb in 'fence disk 7' 'limit api 5/1h' 'cache value -- true'; do
    run dlock --replicas 1 $verb
    assert_status 69
  done
  assert_equal "$(sql 'SELECT (SELECT count(*) FROM dlock.fence) + (SELECT count(*) FROM dlock.rate)')" 0
  start_standby 2 1
  commits_wait_for 1 'ANY 1 (s2)' 1
  dlock run --replicas 1 job -- true
  run dlock run --replicas 2 job -- touch "$ran"
  assert_status 69
  [[ ! -e $ran ]]
}

@test "--replicas is refused while a standby is connected that commits do not wait for, and if what is none can confirm them" {
  use_postgres_store -c wal_level=logical
  dlock run job -- true
  start_standby 2 1
  start_standby 3 1
  # One that is not named, and two of one name.
  commits_wait_for 1 'FIRST 1 (s2)' 1
  assert_not_all
  for standby in 2 3; do
    postgres_set "$standby" primary_conninfo "host=$postgres_sockets port=${postgres_port[1]} user=postgres application_name=walreceiver"
  done
  commits_wait_for 1 'walreceiver' 1
  assert_not_all
  run dlock --replicas all doctor
  assert_status 2
  assert_output_contains '2 standbys are connected'
  run dlock --replicas 1 run job -- echo started
  assert_equal "$status $output" '0 started'

  commits_wait_for 1 'FIRST 2 (walreceiver)' 2
  run dlock --replicas all run job -- echo started
  assert_equal "$status $output" '0 started'

  # What archives the log is none.
  sql 'GRANT pg_monitor TO app'
  mkdir -m 777 "$postgres_root/archive"
  "${as_postgres[@]}" "$postgres_programs/pg_receivewal" --synchronous -D "$postgres_root/archive" \
    -d "host=$postgres_sockets port=${postgres_port[1]} user=postgres application_name=archive" 3>&- &
  archiver=$!
  sql "SELECT pg_create_logical_replication_slot('slot', 'test_decoding')" > /dev/null
  "${as_postgres[@]}" "$postgres_programs/pg_recvlogical" -S slot --start -F 1 -s 1 -f "$postgres_root/archive/logical" \
    -d "host=$postgres_sockets port=${postgres_port[1]} user=postgres dbname=app application_name=logical" 3>&- &
  subscriber=$!
  for other in archive logical; do
    eventually confirms "$other"
    run dlock --replicas all run job -- echo started
    assert_equal "$status $output" '0 started'
    commits_wait_for 1 "ANY 1 (walreceiver, $other)" 3
    run dlock --replicas 1 run job -- echo started
    assert_message 69 "its commits may wait only for $other"
    commits_wait_for 1 "FIRST 1 ($other)" 1
    run dlock --replicas all run job -- echo started
    assert_message 69 '2 standbys are connected'
    commits_wait_for 1 'FIRST 2 (walreceiver)' 2
  done
  end_processes "$archiver" "$subscriber"
}
confirms() { [[ $(sql "SELECT count(flush_lsn) FROM pg_stat_replication WHERE application_name = '$1'") == 1 ]]; }
assert_not_all() {
  for verb in 'run job -- touch ran' 'acquire job' 'fence disk 7' 'limit api 5/1h'; do
    run timeout 60 dlock --replicas all $verb
    assert_message 69 '2 standbys are connected, and its commits wait for only 1'
  done
}

@test "a primary that is killed, and its synchronous standby promoted, costs the run nothing" {
  use_synchronous_standby
  two_hosts
  # The next primary has a standby, which commits wait for there as well.
  start_standby 3 1
  postgres_set 2 synchronous_standby_names 'ANY 1 (s3)'
  hold job --replicas 1 "${lease[@]}" --report "$report"
  fence=$(look job '.holders[0].fence')
  await_renewal job

  crash_postgres 1
  promote_postgres 2
  postgres_set 3 primary_conninfo "host=$postgres_sockets port=${postgres_port[2]} user=postgres application_name=s3"
  await_renewal job 2

  never_within 4500 has_ended "$holder"
  run dlock run --replicas 1 job -- touch "$ran"
  assert_status 75
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.protected)"')" 'ran true'
  (($(dlock run --replicas 1 job -- printenv DLOCK_FENCE) > fence))
}

# --- Poolers, and replies that break off ---

@test "many contenders behind a pooler with three sessions never hold the lock together" {
  local number=${DLOCK_TEST_CONTENDERS:-10}
  use_postgres_store
  use_pgbouncer default_pool_size=3
  export DLOCK_STORE=$pooled
  dlock run contended -- true
  for ((i = 0; i < number; ++i)); do
    dlock run --wait 120s contended -- "$faults/critical_section" "$BATS_TEST_TMPDIR" 0.003 3>&- &
    contenders+=($!)
  done

  for contender in "${contenders[@]}"; do EVENTUALLY_MS=100000 assert_exits 0 "$contender"; done

  [[ ! -e $BATS_TEST_TMPDIR/violations ]]
  assert_equal "$(wc -l < "$BATS_TEST_TMPDIR/fences")" "$number"
  sort -nuc "$BATS_TEST_TMPDIR/fences"
  # Nothing listens: each session says so to the next one who asks.
  for _ in 1 2 3 4; do
    assert_equal "$("$postgres_programs/psql" -XqAt "$pooled" -c 'SELECT count(*) FROM pg_listening_channels()')" 0
  done
}

@test "a pooler whose server is down, or that is shut down, makes the store unavailable" {
  use_postgres_store
  use_pgbouncer server_connect_timeout=1 server_login_retry=1 query_wait_timeout=2
  DLOCK_STORE=$pooled
  dlock run job -- true
  end_postgres 1

  run timeout 60 dlock run --store-timeout 2s job -- touch "$ran"
  assert_message 69
  end_processes "$pgbouncer_pid"
  wait "$pgbouncer_pid" || true
  pgbouncer_pid=
  run timeout 60 dlock run --store-timeout 2s job -- touch "$ran"
  assert_message 69
}

# tests/contract/pg_connection_test.cpp cuts the replies to a step after each byte.
@test "a pooler that shares sessions by statement is refused with what to set, where a transaction is needed" {
  use_postgres_store
  use_pgbouncer pool_mode=statement
  export DLOCK_STORE=$pooled

  run dlock cache --ttl 1h value -- true
  assert_status 0
  assert_output_contains 'let it share sessions by transaction (pool_mode = transaction)'
  run dlock doctor

  assert_status 2
  assert_output_contains 'let it share sessions by transaction (pool_mode = transaction)'
}

# --- Servers and roles with settings that get in the way ---

@test "time limits that are forced on the role make steps fail, and are named" {
  use_postgres_store
  dlock run job -- true
  mkfifo "$BATS_TEST_TMPDIR/other"
  "$postgres_programs/psql" -XqAt "$(postgres_url 1)" < "$BATS_TEST_TMPDIR/other" > "$said" 2>&1 3>&- &
  exec {other}> "$BATS_TEST_TMPDIR/other"
  echo "BEGIN; SELECT 'locked' FROM dlock.lock WHERE name = 'job' FOR UPDATE;" >&"$other"
  eventually grep -qx locked "$said"
  sql "ALTER ROLE app SET statement_timeout = '1s'"

  run dlock run --store-timeout 6s job -- touch "$ran"

  assert_message 69 'due to statement timeout: raise it for this role'
  exec {other}>&-
  run dlock run job -- echo started
  assert_equal "$status $output" '0 started'
}

@test "a full disk grants nothing, and there is a grant again once there is room" {
  needs_root
  make_postgres_root
  mount -t tmpfs -o size=80m,mode=755 none "$postgres_root"
  full=$postgres_root
  mkdir "$postgres_sockets"
  owned_by_postgres "$postgres_root"
  use_postgres_store
  dlock run job -- true
  head -c 100M /dev/zero > "$postgres_root/filler" 2> /dev/null || true
  sql 'CREATE TABLE filler AS SELECT repeat(md5(i::text), 300) FROM generate_series(1, 20000) i' 2> /dev/null || true

  eventually is_refused
  assert_equal "$(< "$order")" 69
  output=$(< "$said")
  assert_one_line
  rm "$postgres_root/filler"

  eventually postgres_serves 1
  while_it_fails_with 69 dlock run job -- true
}
is_refused() {
  local code=0
  dlock run --store-timeout 2s "job-$RANDOM$RANDOM" -- true 2> "$said" || code=$?
  echo "$code" > "$order"
  ((code != 0))
}
