#!/usr/bin/env bats
# Locks in a PostgreSQL database: the behaviour of every store, and what is specific to
# PostgreSQL.
# shellcheck disable=SC2016  # commands are shells that expand for themselves
# shellcheck disable=SC2030,SC2031  # each test has a store of its own
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load support
  load ../faults/locks
  load postgres
  use_postgres_store
  report=$BATS_TEST_TMPDIR/report
  order=$BATS_TEST_TMPDIR/order
  said=$BATS_TEST_TMPDIR/said
}

teardown() {
  stop_postgres
  kill_leftovers
}

short=(--ttl 2s --store-timeout 500ms)  # for leases that have to expire

noting=(sh -c 'echo "$2" >> "$1"' -)
noted() { grep -qsx "$1" "$order"; }
of_report() { jq -r "$1" "$report"; }

# --- Behaviour of every store ---

@test "a command runs under the lock, and dlock exits with its exit code" {
  run dlock run job -- sh -c 'echo "$DLOCK_STORE"; dlock status job > /dev/null && echo held; exit 3'

  assert_equal "$status $output" "3 $DLOCK_STORE
held"
  run dlock status job
  assert_status 1
}

@test "a lock that is held is busy, and its holder is named" {
  hold job

  run dlock run job -- echo started

  assert_status 75
  assert_one_line
  assert_output_contains "dlock: job: held by $(id -un)@$(uname -n) (pid $holder, sh -c "
}

@test "waiters are served in order of arrival" {
  hold job
  for number in 1 2 3; do queue job -- "${noting[@]}" "$order" "$number"; done

  let_go
  eventually noted 3

  assert_equal "$(paste -sd ' ' "$order")" '1 2 3'
}

@test "there are as many holders as slots, and the next one gets the released slot" {
  hold job --slots 2
  first=$holder
  hold job --slots 2

  run dlock run --slots 2 job -- true
  assert_status 75
  let_go "$first"
  assert_exits 0 "$first"
  run dlock run --slots 2 job -- printenv DLOCK_SLOT

  assert_equal "$status $output" '0 0'
}

@test "readers share the lock and exclude a writer" {
  hold job --shared

  run dlock run --shared job -- true
  assert_status 0
  run dlock run job -- true
  assert_status 75
}

@test "a lock is acquired, renewed, checked and released by hand" {
  token=$(dlock acquire --ttl 20s job)
  run dlock run job -- true
  assert_status 75
  dlock renew --ttl 60s job --token "$token"
  assert_between "$(look job '.holders[0].expires_in_ms')" 50000 60000
  fence=$(look job '.holders[0].fence')
  DLOCK_FENCE=$fence DLOCK_NAME=job dlock check
  dlock release job --token "$token"

  run dlock release job --token "$token"
  assert_status 76
  is_free job
}

@test "a lease with --for-pid ends with the process" {
  sleep 60 3>&- &
  process=$!
  dlock acquire --for-pid "$process" "${short[@]}" job > /dev/null
  is_held job

  kill "$process"

  eventually is_free job
}

@test "fences grow, also after the row of the lock was deleted" {
  first=$(dlock run job -- printenv DLOCK_FENCE)
  second=$(dlock run job -- printenv DLOCK_FENCE)
  sql 'DELETE FROM dlock.lock'
  third=$(dlock run job -- printenv DLOCK_FENCE)

  ((first < second && second < third))
}

@test "a row that is made again never has a version of the row before it" {
  dlock run job -- true
  before=$(sql 'SELECT version FROM dlock.lock')
  sql 'DELETE FROM dlock.lock'

  dlock run job -- true

  (($(sql 'SELECT version FROM dlock.lock') > before))
}

@test "a grant waits for the standby that the server waits for, whatever the role's default is" {
  dlock run job -- true
  sql 'ALTER ROLE app SET synchronous_commit = off'
  sql "ALTER SYSTEM SET synchronous_standby_names = 'nobody'"
  sql 'SELECT pg_reload_conf()'
  eventually waits_for_nobody

  run dlock run --store-timeout 500ms job -- touch "$BATS_TEST_TMPDIR/ran"

  ((status == 69))
  [[ ! -e $BATS_TEST_TMPDIR/ran ]]
  sql 'ALTER SYSTEM RESET synchronous_standby_names'
  sql 'SELECT pg_reload_conf()'
  sql 'ALTER ROLE app RESET synchronous_commit'
  eventually is_free job
}

waits_for_nobody() { [[ $(sql 'SHOW synchronous_standby_names') == nobody ]]; }

@test "dlock fence refuses a smaller fence than it has admitted" {
  dlock fence disk 7
  run dlock fence disk 6
  assert_status 76
  dlock fence disk 7
  dlock fence disk 10
}

@test "list shows locks, and history shows how runs ended" {
  hold 'a job/with a slash'
  dlock run b -- true
  run dlock run b -- sh -c 'exit 3'

  assert_equal "$(dlock list --json | jq -c '[.[].name]')" '["a job/with a slash","b"]'
  assert_equal "$(dlock history --json b | jq -c '[.[].exit_code]')" '[3,0]'
}

@test "namespaces do not see each other, and patterns are no patterns of SQL" {
  hold job
  hold 'a%b' --namespace other
  run dlock --namespace other run job -- echo started
  assert_equal "$status $output" '0 started'

  assert_equal "$(dlock list --json | jq -c '[.[].name]')" '["job"]'
  assert_equal "$(dlock --namespace other list --json 'a%*' | jq -c '[.[].name]')" '["a%b"]'
  assert_equal "$(dlock --namespace other list --json 'a_b' | jq -c '[.[].name]')" '[]'
}

@test "watch prints what happens to a lock" {
  dlock watch --json job > "$said" 3>&- &
  eventually is_watched

  dlock run job -- sh -c 'exit 3' || true
  token=$(dlock acquire --ttl 2s job)

  eventually is_told expired
  assert_equal "$(jq -r .event "$said" | paste -sd ' ')" 'granted released granted expired'
  assert_equal "$(jq -r 'select(.event == "released").message' "$said" | cut -d, -f1)" 'exit 3'
  [[ -n $token ]]
}

@test "watch says who waits, and that a lock was broken" {
  hold job
  dlock watch --json > "$said" 3>&- &
  eventually is_watched

  dlock run --wait 30s job -- sh -c 'exit 3' 3>&- &
  run=$!
  eventually is_told queued
  let_go
  assert_exits 3 "$run"
  dlock acquire --ttl 60s 'by hand' > /dev/null
  dlock break --yes 'by hand' > /dev/null
  eventually is_told broken

  assert_equal "$(jq 'select(.event == "queued").pid' "$said")" "$run"
  assert_equal "$(jq -r 'select(.event == "broken").message' "$said")" "$(id -un)@$(uname -n) took the lock with dlock break"
}

is_told() { jq -r .event "$said" | grep -qx "$1"; }
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

is_watched() { [[ $(sql 'SELECT count(*) FROM dlock.watcher') == [1-9]* ]]; }

@test "a run whose lock is broken ends within a moment, and reports that it was broken" {
  # It is renewed after minutes only.
  hold job --ttl 10m --report "$report"

  dlock break --yes job > /dev/null

  EVENTUALLY_MS=5000 assert_exits 76 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason)"')" 'lost broken'
}

@test "break --force frees the lock of a dead machine at once, for the first waiter" {
  hold job --ttl 10m
  fence=$(look job '.holders[0].fence')
  queue job -- sh -c 'echo "$DLOCK_FENCE" > "$0"' "$order"
  kill -KILL "$holder" "$command"

  dlock break --force --yes job

  assert_exits 0 "$waiter"
  (($(< "$order") > fence))
  run dlock history job
  assert_output_contains "lost (broken by force by $(id -un)@$(uname -n))"
}

@test "with --dedupe a job does not run twice within the window" {
  dlock run job -- "${noting[@]}" "$order" first

  dlock run --dedupe 1h job -- "${noting[@]}" "$order" second

  assert_equal "$(< "$order")" first
}

@test "a run that was killed with its dlock does not count for --dedupe" {
  hold job "${short[@]}" --dedupe 1h
  kill -KILL "$holder" "$command"
  eventually is_free job

  run dlock run --dedupe 1h job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "with --supersede only the newest claim waits" {
  hold job
  queue job --supersede -- "${noting[@]}" "$order" older
  older=$waiter
  queue job --supersede -- "${noting[@]}" "$order" newer

  assert_exits 75 "$older"
  let_go
  assert_exits 0 "$waiter"
  assert_equal "$(< "$order")" newer
}

@test "--replace takes the lock from its holder" {
  hold job --report "$report"

  run dlock run --replace --wait 10s job -- echo mine

  assert_equal "$status $output" '0 mine'
  assert_exits 76 "$holder"
}

@test "--max-queue refuses to wait if the queue is full" {
  hold job
  queue job -- true

  run dlock run --wait 10s --max-queue 1 job -- true

  assert_status 75
}

@test "--min-hold keeps the lock after a short run" {
  dlock run --min-hold 1h job -- true

  run dlock run job -- true
  assert_status 75
  assert_between "$(look job '.holders[0].expires_in_ms')" 3500000 3600000
}

@test "--lock-delay keeps the lock after its lease has ended" {
  hold job --ttl 2s --store-timeout 500ms --lock-delay 3s
  kill -KILL "$holder" "$command"
  begin=$(now_ms)

  dlock run --wait 20s job -- true

  assert_between $(($(now_ms) - begin)) 3000 8000
}

@test "with --reclaim a deleted lease is created again, and without it the run is lost" {
  hold job "${short[@]}" --reclaim --report "$report"
  reclaiming=$holder
  hold other "${short[@]}" 2> "$said"

  sql 'DELETE FROM dlock.lock'

  assert_exits 76 "$holder"
  eventually is_held job
  let_go "$reclaiming"
  assert_exits 0 "$reclaiming"
  assert_equal "$(of_report .outcome)" ran
}

@test "--on-outage decides whether the command runs without the server" {
  end_postgres 1

  run dlock run --store-timeout 500ms job -- echo started
  assert_status 69
  assert_one_line
  run dlock run --store-timeout 500ms --on-outage stop job -- echo started
  assert_status 69
  run dlock run --store-timeout 500ms --on-outage run job -- echo started
  assert_status 0
  assert_output_contains started
}

@test "limit admits so many in a period, and shows and resets it" {
  dlock limit api 2/1h
  dlock limit api 2/1h

  run dlock limit api 2/1h
  assert_status 75
  dlock limit --reset api
  dlock limit api 2/1h
}

@test "limit never admits more, however many ask at once" {
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    dlock limit api 4/1h -- "${noting[@]}" "$order" admitted 3>&- &
    asking+=($!)
  done

  wait "${asking[@]}" || true

  assert_equal "$(wc -l < "$order")" 4
}

@test "cache stores what a command prints, of any size, and serves it again" {
  computing=(sh -c 'echo >> "$1"; head -c 700000 /dev/urandom' - "$order")
  dlock cache --ttl 1h report -- "${computing[@]}" > "$BATS_TEST_TMPDIR/first"
  dlock cache --ttl 1h report -- "${computing[@]}" > "$BATS_TEST_TMPDIR/second"

  cmp "$BATS_TEST_TMPDIR/first" "$BATS_TEST_TMPDIR/second"
  assert_equal "$(stat -c %s "$BATS_TEST_TMPDIR/second") $(wc -l < "$order")" '700000 1'
}

# --- Fences in the user's own transaction ---

@test "a transaction writes under the newest fence, or nothing" {
  dlock run job -- true
  sql 'CREATE TABLE result (id int PRIMARY KEY, value text); GRANT ALL ON result TO app;
    CREATE ROLE worker LOGIN; GRANT ALL ON result TO worker;
    GRANT USAGE ON SCHEMA dlock TO worker; GRANT EXECUTE ON FUNCTION dlock.admit TO worker'
  writes() {  # <fence> <value>
    "$postgres_programs/psql" -XqAt -v ON_ERROR_STOP=1 -v VERBOSITY=verbose "$(postgres_url 1 worker)" \
      -c "BEGIN; SELECT dlock.admit('disk-1', $1);
        INSERT INTO result VALUES (1, '$2') ON CONFLICT (id) DO UPDATE SET value = '$2'; COMMIT" 2>&1
  }

  writes 5 five
  writes 6 six
  run writes 5 late

  [[ $status != 0 && $output == *DLF01* ]]
  assert_equal "$(sql 'SELECT value FROM result')" six
  run dlock fence disk-1 5
  assert_status 76
  dlock fence disk-1 7
  run writes 6 late
  [[ $status != 0 ]]
}

@test "of two transactions the older one, which commits late, is refused" {
  dlock run job -- true
  sql 'CREATE TABLE result (value text); GRANT ALL ON result TO app'
  mkfifo "$BATS_TEST_TMPDIR/older"
  "$postgres_programs/psql" -XqAt "$(postgres_url 1)" < "$BATS_TEST_TMPDIR/older" > "$said" 2>&1 3>&- &
  exec {older}> "$BATS_TEST_TMPDIR/older"
  echo "BEGIN; INSERT INTO result VALUES ('older'); SELECT 'begun';" >&"$older"
  eventually grep -qx begun "$said"

  dlock fence disk-1 8
  echo "SELECT dlock.admit('disk-1', 7); COMMIT;" >&"$older"
  exec {older}>&-
  wait $! || true

  grep -q DLF01 "$said" || grep -q fence "$said"
  assert_equal "$(sql 'SELECT count(*) FROM result')" 0
}

# --- Sessions ---

@test "a session says in pg_stat_activity whose it is" {
  hold job

  assert_equal "$(sql "SELECT DISTINCT application_name FROM pg_stat_activity WHERE usename = 'app'")" 'dlock job'
}

@test "a run leaves no session, and an idle lock no row lock or open transaction" {
  hold job
  eventually is_idle
  let_go
  assert_exits 0 "$holder"

  eventually no_session
}
is_idle() {
  [[ $(sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app' AND state <> 'idle'") == 0 ]]
}
no_session() { [[ $(sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'") == 0 ]]; }

@test "with listen=off a holder has no session between renewals of a long lease" {
  DLOCK_STORE+='&listen=off'
  hold job --ttl 15s
  eventually no_session
  version=$(sql 'SELECT version FROM dlock.lock')
  EVENTUALLY_MS=10000 eventually is_renewed
  eventually no_session
  let_go
  assert_exits 0 "$holder"

  hold job --ttl 6s
  never_within 1500 no_session
  let_go
  assert_exits 0 "$holder"
}
is_renewed() { (($(sql 'SELECT version FROM dlock.lock') > version)); }

@test "twenty waiters take a few sessions, and the first ones get their turn at once" {
  hold job
  for number in {1..20}; do
    dlock run --wait 300s job -- "${noting[@]}" "$order" "$number" 3>&- &
    waiters+=($!)
  done
  EVENTUALLY_MS=60000 eventually so_many_wait 20
  EVENTUALLY_MS=20000 eventually few_sessions

  let_go

  EVENTUALLY_MS=20000 eventually have_run 3
}
so_many_wait() { [[ $(look job '.waiters | length') == "$1" ]]; }
few_sessions() { (($(sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'") <= 6)); }
have_run() { (($(wc -l < "$order") >= $1)); }

@test "doctor finds nothing wrong with a server as the distribution sets it up" {
  run dlock doctor

  refute_output_contains error
  [[ $status == @(0|1) ]]
  run dlock doctor --json
  [[ $(json '.round_trip_ms > 0 and .smallest_ttl_ms > 0') == true ]]
}

@test "doctor leaves nothing behind" {
  dlock run job -- true
  rows() { "$postgres_programs/pg_dump" --data-only --inserts "$(postgres_url 1 postgres)" | grep -v '^--\|^SET\|restrict'; }
  before=$(rows)

  run dlock doctor

  assert_equal "$(rows)" "$before"
}

# --- PgBouncer in transaction mode ---

@test "behind a pooler in transaction mode locks work, and no channel is left listening" {
  use_pgbouncer default_pool_size=2
  direct=$DLOCK_STORE
  DLOCK_STORE=$pooled
  hold job
  queue job -- "${noting[@]}" "$order" waited
  dlock run other -- true
  let_go
  assert_exits 0 "$waiter"

  assert_equal "$(sessions_that_listen)" 0
  run dlock doctor
  assert_output_contains pooler
  run dlock watch job
  assert_status 78
  assert_one_line
  DLOCK_STORE=$direct
  dlock run job -- true
}
# Of those that the pooler has: what was notified last on each channel would come to a stranger.
sessions_that_listen() {
  sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app' AND query ILIKE 'LISTEN%'"
}

@test "a break is noticed behind a pooler at the next renewal" {
  use_pgbouncer
  DLOCK_STORE=$pooled
  hold job --ttl 3s --report "$report"

  dlock break --yes job > /dev/null

  assert_exits 76 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason)"')" 'lost broken'
}

@test "clients behind a pooler and clients of the server are served in one line" {
  use_pgbouncer
  hold job
  direct=$DLOCK_STORE
  for number in 1 2 3 4; do
    DLOCK_STORE=$direct
    ((number % 2)) || DLOCK_STORE=$pooled
    queue job -- "${noting[@]}" "$order" "$number"
  done
  let_go

  EVENTUALLY_MS=20000 eventually noted 4
  assert_equal "$(paste -sd ' ' "$order")" '1 2 3 4'
}
