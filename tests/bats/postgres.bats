#!/usr/bin/env bats
# Locks in a PostgreSQL database: what is specific to it. What every store does is in
# tests/contract.

load postgres
tests_share_postgres

noted() { grep -qsx "$1" "$order"; }
sessions() { sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'${1:+ AND $1}"; }  # [<which>]
there_are() { (($(sessions "${2:-}") == $1)); }  # <number> [<which>]

# --- Locks ---

@test "a command runs under the lock, dlock exits with its exit code, and leaves no session" {
  local before
  before=$(abandoned)
  run dlock run job -- sh -c 'echo "$DLOCK_STORE"; dlock check && dlock status job > /dev/null && echo held; exit 3'

  assert_equal "$status $output" "3 $DLOCK_STORE
held"
  run dlock status job
  assert_status 1
  eventually there_are 0
  dlock run --also other job -- sh -c '! dlock run --wait 0.1 job -- true'
  eventually there_are 0
  assert_equal "$(abandoned)" "$before"
}
# How many sessions the server believes to have lost.
abandoned() { sql "SELECT sessions_abandoned FROM pg_stat_database WHERE datname = 'app'"; }

@test "a look at a later lock, before the first is asked for, opens no further connection" {
  local before
  before=$(sql 'SELECT pg_conf_load_time()')
  sql 'SELECT pg_reload_conf()' -c 'ALTER SYSTEM SET log_connections = on' > /dev/null
  eventually postgres_has_reloaded "$before"

  dlock run --dedupe 1h job --also a --also b -- true

  assert_equal "$(grep -c 'connection authorized: user=app' "$postgres_root/1.log")" 3
}

@test "a lock that is held is busy; its session says whose it is, and has no transaction open" {
  hold job

  run dlock run job -- echo started

  assert_message 75 "dlock: job: held by $(id -un)@$(uname -n) (pid $holder, sh -c "
  eventually there_are 1 "application_name = 'dlock job' AND state = 'idle'"
}

@test "namespaces do not see each other, and patterns are no patterns of SQL" {
  hold 'a job/with a slash'
  hold 'a%b' --namespace other

  assert_equal "$(dlock list --json | jq -c '[.[].name]')" '["a job/with a slash"]'
  assert_equal "$(dlock --namespace other list --json 'a%*' | jq -c '[.[].name]')" '["a%b"]'
  assert_equal "$(dlock --namespace other list --json 'a_b' | jq -c '[.[].name]')" '[]'
}

@test "the view dlock.locks shows people what is held, by whom and until when" {
  hold job --label 'nightly "x"'
  dlock acquire --ttl 60s 'by hand' > /dev/null

  assert_equal "$(sql "SELECT name, state #>> '{holders,0,pid}', refused, due > now() FROM dlock.locks ORDER BY name" |
    paste -sd ' ')" "by hand|$(look 'by hand' '.holders[0].pid')|0|t job|$holder|0|t"
}

@test "a grant waits for the standby that the server waits for, whatever the role's default is" {
  dlock run job -- true
  sql 'ALTER ROLE app SET synchronous_commit = off'
  sql "ALTER SYSTEM SET synchronous_standby_names = 'absent'"
  sql 'SELECT pg_reload_conf()'
  eventually waits_for_absent

  run dlock run --store-timeout 500ms job -- touch "$BATS_TEST_TMPDIR/ran"

  ((status == 69))
  [[ ! -e $BATS_TEST_TMPDIR/ran ]]
  sql 'ALTER SYSTEM RESET synchronous_standby_names'
  sql 'SELECT pg_reload_conf()'
  eventually is_free job
}
waits_for_absent() { [[ $(sql 'SHOW synchronous_standby_names') == absent ]]; }

@test "contenders whose transactions are serializable by default exclude each other" {
  dlock run job -- true
  sql "ALTER ROLE app SET default_transaction_isolation = 'serializable'"
  for _ in {1..6}; do
    dlock run --wait 30s job -- "$DLOCK_SOURCE/tests/faults/critical_section" "$BATS_TEST_TMPDIR" 0.003 3>&- &
    contenders+=($!)
  done

  for contender in "${contenders[@]}"; do assert_exits 0 "$contender"; done

  [[ ! -e $BATS_TEST_TMPDIR/violations ]]
}

# Prints in how many parts dlock sends what it has to tell the server: each is a round trip. It has
# a separate unix socket, to its guardian.
round_trips() {  # <URL>
  local socket
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 strace -f -qq -yy -e signal=none -e trace=connect,write,writev,sendto,sendmsg -o "$said" dlock run --store "$1" job -- true
  socket=$(sed -n 's/.*connect(.*UNIX-STREAM:\[\([0-9]*\)\]>.*PGSQL.*/\1/p' "$said")
  # To say goodbye is none.
  grep -v -e ' connect(' -e '"X\\0\\0\\0\\4"' "$said" | grep -c -e 'TCP:\[' -e "UNIX-STREAM:\[${socket:-none}"
}

# One more stores the pid of a command that runs for longer than a moment, as any does on a busy
# machine.
makes_round_trips() { (($(round_trips "$2") == $1)); }  # <number> <URL>

@test "a run makes four round trips, and its login with SCRAM two more" {
  dlock run job -- true

  eventually makes_round_trips 4 "$DLOCK_STORE"

  export PGPASSWORD=$postgres_password
  eventually makes_round_trips 6 "$(postgres_tcp_url 1)?sslmode=disable"
}

# --- Notifications ---

is_told() { jq -r .event "$said" | grep -qx "$1"; }
is_watched() { [[ $(sql 'SELECT count(*) FROM dlock.watcher') == [1-9]* ]]; }

@test "watch misses no step that is written while it begins" {
  dlock run job -- true
  mkfifo "$BATS_TEST_TMPDIR/other"
  "$postgres_programs/psql" -XqAt "$(postgres_url 1)" < "$BATS_TEST_TMPDIR/other" > "$order" 2>&1 3>&- &
  exec {other}> "$BATS_TEST_TMPDIR/other"
  echo "BEGIN; SELECT 'locked' FROM dlock.lock FOR UPDATE;" >&"$other"
  eventually grep -qx locked "$order"
  dlock run --store-timeout 20s --ttl 120s job -- true 3>&- &
  runner=$!
  eventually waits_for_the_row

  dlock watch --json job > "$said" 3>&- &
  eventually is_watched
  echo 'COMMIT;' >&"$other"

  assert_exits 0 "$runner"
  eventually grep -q '"event":"granted"' "$said"
  exec {other}>&-
}
waits_for_the_row() {
  [[ $(sql "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dlock job' AND wait_event_type = 'Lock'") == 1 ]]
}

@test "watch says who waits and what becomes of a lock, even after its session was terminated" {
  hold job
  dlock watch --json > "$said" 3>&- &
  eventually is_watched

  dlock run --wait 30s job -- sh -c 'exit 3' 3>&- &
  run=$!
  eventually is_told queued
  old=$(sql "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dlock watch'" | cut -d '|' -f 1)
  eventually there_are 1 "application_name = 'dlock watch' AND pid <> $old AND state = 'idle'"
  let_go
  assert_exits 3 "$run"
  dlock acquire --ttl 60s 'by hand' > /dev/null
  dlock break --yes 'by hand' > /dev/null
  eventually is_told broken

  assert_equal "$(jq 'select(.event == "queued").pid' "$said")" "$run"
  assert_equal "$(jq -r 'select(.event == "broken").message' "$said")" "$(id -un)@$(uname -n) took the lock with dlock break"
}

# The channel is a checksum of words that everyone knows.
event_channel=dlock_ev_cbd12833f44a49c1
@test "whoever may only connect can forge no event, nor end a watch, by notifications" {
  dlock watch --json > "$said" 2> "$order" 3>&- &
  eventually is_watched
  dlock run "$(printf '🔒%.0s' {1..63})" -- true "$(printf '"%.0s' {1..9000})"
  eventually is_told released
  sql 'CREATE ROLE mallory LOGIN'

  "$postgres_programs/psql" -Xq "$(postgres_url 1 mallory)" -o /dev/null -v "line=$(head -n 1 "$said" | head -c 7000)" <<< "
    SELECT pg_notify('$event_channel', :'line'), count(pg_notify('$event_channel', 'x' || g)) FROM generate_series(1, 20000) g"
  dlock run other -- true
  other_is_told() { (($(wc -l < "$said") == 4)); }
  eventually other_is_told

  never_within 1500 more_is_told
  assert_equal "$(jq -r '"\(.event) \(.name | length)"' "$said" | paste -sd ' ')" 'granted 63 released 63 granted 5 released 5'
  assert_equal "$(cat "$order")" ''
}
more_is_told() { (($(wc -l < "$said") > 4)); }

@test "whoever may only read makes a holder renew its lease twice a second at most" {
  hold job --ttl 60s
  # As the claim derives it from its token.
  own=$(sql "SELECT 'dlock_' || left(t, 15) || translate(substr(t, 16, 1), '02468ace', '13579bdf') FROM (SELECT state::jsonb #>> '{holders,0,token}' FROM dlock.lock) l(t)")
  sleep 1.5  # it begins to listen
  before=$(sql 'SELECT version FROM dlock.lock')
  for _ in {1..300}; do echo "NOTIFY $own; NOTIFY $own, 'in front'; SELECT pg_sleep(0.01);"; done > "$order"
  SECONDS=0

  "$postgres_programs/psql" -Xq "$(postgres_url 1)" -o /dev/null -f "$order"

  assert_between $(($(sql 'SELECT version FROM dlock.lock') - before)) 2 $((2 * SECONDS + 4))
  let_go
  assert_exits 0 "$holder"
}

no_session() { [[ $(sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'") == 0 ]]; }
@test "with listen=off a holder has no session between renewals of a long lease" {
  DLOCK_STORE+='&listen=off'
  hold job --ttl 15s
  eventually no_session
  version=$(sql 'SELECT version FROM dlock.lock')
  eventually is_renewed
  eventually no_session
  let_go
  assert_exits 0 "$holder"

  hold job --ttl 6s
  never_within 1500 no_session
  let_go
  assert_exits 0 "$holder"
}
is_renewed() { (($(sql 'SELECT version FROM dlock.lock') > version)); }

# The holder has to connect first, which takes longer than a waiter that ends has for its place.
@test "with listen=off a holder without a session that is told to end releases its lock" {
  DLOCK_STORE+='&listen=off'
  hold job --ttl 15s
  eventually no_session
  freeze_postgres 1

  kill -TERM "$holder"

  never_within 400 has_ended "$holder"
  postgres_goes_on 1
  assert_exits 143 "$holder"
  is_free job
}

@test "with listen=off no session listens: waiters and watch ask again" {
  DLOCK_STORE+='&listen=off'
  hold job --ttl 10m
  queue job -- "${noting[@]}" "$order" waited
  dlock watch --json > "$said" 3>&- &
  eventually is_watched
  assert_equal "$(sessions "query ILIKE '%LISTEN%'")" 0
  let_go

  assert_exits 0 "$waiter"
  eventually is_told granted
}

@test "doctor leaves nothing behind" {
  dlock run job -- true
  rows() { "$postgres_programs/pg_dump" --data-only --inserts "$(postgres_url 1 postgres)" | grep -v '^--\|^SET\|restrict'; }
  before=$(rows)

  run dlock doctor

  assert_equal "$(rows)" "$before"
}

# --- PgBouncer in transaction mode ---

@test "behind a pooler in transaction mode locks and watch work, and no channel is left listening" {
  use_pgbouncer default_pool_size=2
  direct=$DLOCK_STORE
  DLOCK_STORE=$pooled
  hold job
  # In one line with those that are connected to the server.
  DLOCK_STORE=$direct queue job -- "${noting[@]}" "$order" 1
  for number in 2 3; do queue job -- sh -c 'date +%s%3N > "$0.$1"; echo "$1" >> "$0"' "$order" "$number"; done
  let_go
  eventually noted 3

  assert_equal "$(paste -sd ' ' "$order")" '1 2 3'
  assert_between "$(($(< "$order.3") - $(< "$order.2")))" 0 1700
  dlock watch --json job > "$BATS_TEST_TMPDIR/watched" 3>&- &
  eventually a_run_is_watched
  kill $!
  # Of the sessions that the pooler has: what was notified there would come to a stranger.
  eventually there_are 0 "query ILIKE 'LISTEN%'"
}

a_run_is_watched() {
  dlock run job -- true
  grep -q '"released"' "$BATS_TEST_TMPDIR/watched"
}

@test "with listen=on, for a pooler that shares no sessions, waiters and holders are notified" {
  use_pgbouncer pool_mode=session
  DLOCK_STORE="$pooled?listen=on"
  hold job --ttl 10m --report "$report"
  queue job -- "${noting[@]}" "$order" waited
  eventually nobody_polls

  dlock break --yes job > /dev/null

  assert_exits 76 "$holder"
  assert_equal "$(of_report .reason)" broken
  assert_exits 0 "$waiter"
  noted waited
}

nobody_polls() {
  asked=$(last_request)
  never_within 700 has_been_asked
}
last_request() { sql "SELECT max(query_start) FROM pg_stat_activity WHERE usename = 'app'"; }
has_been_asked() { [[ $(last_request) != "$asked" ]]; }

@test "a break is noticed behind a pooler at the next renewal" {
  use_pgbouncer
  DLOCK_STORE=$pooled
  hold job --ttl 15s --store-timeout 5s --report "$report"

  dlock break --yes job > /dev/null

  assert_exits 76 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason)"')" 'lost broken'
}
