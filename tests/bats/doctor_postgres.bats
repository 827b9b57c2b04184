#!/usr/bin/env bats
# `dlock doctor` on PostgreSQL: one test for each state that is bad for locks.
# shellcheck disable=SC2034  # DLOCK_STORE is exported; helpers set postgres_..., pooled, silent

load postgres
tests_share_postgres

setup() {
  load support
  load ../faults/doctor
}

# --- Servers without problems ---

@test "a server without problems is reported as such" {
  use_shared_postgres
  dlock run job -- true

  run dlock doctor

  assert_status 0
  for check in reachable tls login role version schema permissions pooler notifications persistence \
    replicas sessions snapshots clock round-trip; do
    assert_found ok "$check" ''
  done
  assert_found ok reachable "$postgres_sockets"
  assert_found ok login 'user app'
  assert_found ok version 'PostgreSQL 1'
  assert_equal "${lines[-1]}" "no problems found in $(dlock doctor --json | jq -r .store)"
  assert_equal "$(dlock doctor --json | jq '.smallest_ttl_ms')" 500
}

@test "before the first use, doctor says that the schema will be created, and creates nothing" {
  use_shared_postgres

  assert_doctor_finds 0 info schema 'there is no schema dlock in the database app; dlock creates it on first use'
  assert_found info permissions 'not checked: there is no schema dlock yet'
  assert_equal "$(sql "SELECT count(*) FROM pg_namespace WHERE nspname = 'dlock'")" 0
}

# --- The schema ---

@test "--schema prints statements that can be executed twice, and needs no server" {
  use_shared_postgres
  dlock doctor --schema --store 'postgres://some%22one@192.0.2.1/app?dlock_schema=Other_1' > "$BATS_TEST_TMPDIR/schema.sql"
  sql 'CREATE ROLE "some""one"'

  sql "$(< "$BATS_TEST_TMPDIR/schema.sql")" 2> /dev/null
  sql "$(< "$BATS_TEST_TMPDIR/schema.sql")" 2> /dev/null

  assert_equal "$(sql "SELECT has_table_privilege('some\"one', '\"Other_1\".lock', 'INSERT')")" t
  assert_equal "$(sql "SELECT has_function_privilege('some\"one', '\"Other_1\".admit(text, bigint, text)', 'EXECUTE')")" t
}

@test "--schema is refused where there is none, and with --json" {
  use_private_store

  run dlock doctor --schema
  assert_status 78
  assert_equal "$output" 'dlock: --schema: not on this kind of store, only on postgres://'
  run dlock doctor --schema --json --store postgres://127.0.0.1:1/app
  assert_status 64
}

# Runs what doctor or a run says for the owner, as it is printed but for the name.
paste_line() {  # <start of it>
  PATH=$postgres_programs:$PATH PGPASSWORD=$postgres_password sh -ec "$(sed -n "s/.*\($1.*\)/\1/p" <<< "$output" | sed 's/OWNER/app/')"
}

@test "the line for the owner can be pasted into a shell, has no password, and makes the schema" {
  local url
  use_shared_postgres
  sql "CREATE ROLE worker LOGIN PASSWORD '$postgres_password'"
  sql 'CREATE DATABASE "our app" OWNER app'
  for url in "$(postgres_url 1 worker)" "$(postgres_tcp_url 1 worker)?dlock_schema=other" "$(postgres_url 1 worker our%20app)"; do
    DLOCK_STORE=$url DLOCK_PASSWORD=$postgres_password run dlock run job -- true
    assert_message 77 ': the owner of the database has to run dlock doctor'
    refute_output_contains "$postgres_password"
    DLOCK_STORE=$url DLOCK_PASSWORD=$postgres_password run dlock doctor
    assert_status 2
    refute_output_contains "$postgres_password"

    paste_line 'dlock doctor --schema'

    # The role needs no right but those on this schema.
    DLOCK_STORE=$url DLOCK_PASSWORD=$postgres_password run sh -ec 'dlock run job -- echo ran; dlock limit api 5/1s; dlock fence disk 3
      dlock cache report -- echo 42; dlock history job --json > "$HOME/history"'
    assert_equal "$status ${lines[*]}" '0 ran 42'
  done
  sql 'DROP DATABASE "our app"' # the next test could not drop the role
}

@test "permissions that are missing are named" {
  use_shared_postgres
  dlock run job -- true
  sql 'CREATE ROLE worker LOGIN'
  DLOCK_STORE=$(postgres_url 1 worker)

  run dlock doctor
  assert_found error permissions 'user worker may not use the schema dlock'

  sql 'GRANT USAGE ON SCHEMA dlock TO worker; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dlock TO worker;
    REVOKE DELETE, UPDATE ON dlock.lock FROM worker; REVOKE INSERT ON dlock.rate FROM worker'
  assert_doctor_finds 2 error permissions 'user worker lacks UPDATE, DELETE on lock, INSERT on rate' 'dlock doctor --schema'

  sql 'GRANT ALL ON ALL TABLES IN SCHEMA dlock TO worker; ALTER TABLE dlock.lock ENABLE ROW LEVEL SECURITY'
  assert_doctor_finds 2 error permissions 'row-level security hides rows of lock from user worker' 'ALTER TABLE "dlock".lock DISABLE ROW LEVEL SECURITY'
  run dlock run other -- true
  assert_status 77
  assert_output_contains 'row-level security hides rows of lock from user worker'
}

@test "a schema that is not dlock's, and locks of a newer dlock, are errors" {
  use_shared_postgres
  sql 'CREATE SCHEMA dlock AUTHORIZATION app; CREATE TABLE dlock.lock (door text)'

  assert_doctor_finds 2 error schema 'schema dlock has a table lock without the column namespace' 'use another schema (?dlock_schema=NAME'

  sql 'DROP SCHEMA dlock CASCADE'
  dlock run job -- true
  sql 'UPDATE dlock.lock SET format = 99'
  assert_doctor_finds 2 error schema 'locks that a newer dlock has written (format 99)' 'upgrade dlock'
}

@test "a lock with a fence that is far ahead of the clock is a warning" {
  use_shared_postgres
  dlock run job -- true
  dlock run other -- true
  sql "UPDATE dlock.lock SET state = regexp_replace(state, '^{\"fence\":[0-9]+', '{\"fence\":4000000000000000') WHERE name = 'job'"

  assert_doctor_finds 1 warning fences 'the lock job has fence 4000000000000000: implausibly far ahead' "see 'A fence far ahead of the clock'"
}

# --- The server ---

@test "a server that does not listen, and a login that is refused, are errors" {
  use_shared_postgres

  DLOCK_STORE=postgres://app@127.0.0.1:1/app assert_doctor_finds 2 error reachable '127.0.0.1:1' 'check that the server runs'

  DLOCK_STORE="$(postgres_tcp_url 1)" assert_doctor_finds 2 error login '' 'check the user, the password'
  DLOCK_STORE="$(postgres_url 1 app nowhere)" assert_doctor_finds 2 error login 'nowhere' 'correct the store URL'
}

@test "a login by SCRAM is fine, and one by MD5 is a warning" {
  use_shared_postgres
  printf '%s\n' "$postgres_password" > "$BATS_TEST_TMPDIR/password"
  chmod 600 "$BATS_TEST_TMPDIR/password"
  export DLOCK_PASSWORD_FILE=$BATS_TEST_TMPDIR/password
  DLOCK_STORE=$(postgres_tcp_url 1)

  assert_doctor_finds 0 ok login 'user app, by SCRAM-SHA-256'
  assert_found ok tls 'not encrypted, on this machine'

  sql "SET password_encryption = 'md5'; ALTER ROLE app PASSWORD 'secret'"
  postgres_admits 1 'host all all 127.0.0.1/32 md5'
  echo secret > "$DLOCK_PASSWORD_FILE"
  assert_doctor_finds 1 warning login 'user app, by MD5' "set password_encryption = 'scram-sha-256'"
}

@test "a server that is not proven to be the one that is meant is a warning" {
  use_postgres_store -c 'listen_addresses=*'
  local address
  address=$(ip -o -4 address show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
  postgres_admits 1 'local all all trust' 'host all all all trust'

  DLOCK_STORE="postgres://app@$address:${postgres_port[1]}/app" assert_doctor_finds 1 warning tls 'not encrypted, and not proven to be the server that is meant' 'turn on ssl on the server, and add sslmode=verify-full'
}

@test "settings with which a crash loses locks are errors" {
  use_shared_postgres
  postgres_set 1 fsync off
  postgres_set 1 full_page_writes off

  assert_doctor_finds 2 error persistence 'fsync and full_page_writes are off' 'set it to on in postgresql.conf'
}

@test "time limits of the role that are shorter than a step may take are warnings" {
  use_shared_postgres
  sql "ALTER ROLE app SET statement_timeout = '900ms'"

  assert_doctor_finds 1 warning timeouts 'user app has statement_timeout = 900ms, less than --store-timeout (2.0s)' 'raise it for this role'

  run dlock doctor --store-timeout 800ms
  assert_status 0

  sql "ALTER ROLE app SET statement_timeout = '5s'"
  run dlock doctor
  assert_status 0
  DLOCK_STORE_TIMEOUT=10s assert_doctor_finds 1 warning timeouts 'statement_timeout = 5.0s, less than --store-timeout (10s)'
}

@test "few free connections are a warning, whatever limits them" {
  use_shared_postgres
  sql 'ALTER ROLE app CONNECTION LIMIT 1'
  assert_doctor_finds 1 warning sessions 'the limit of the role is 1' 'let hosts start at different times (--jitter)'

  sql 'ALTER ROLE app CONNECTION LIMIT 50'
  assert_doctor_finds 0 ok sessions "1 of them dlock's; the limit of the role is 50"
}

@test "a standby grants no locks, and is an error alone but not beside its primary" {
  use_postgres_store
  start_standby 2 1

  DLOCK_STORE="$(postgres_url 2)" assert_doctor_finds 2 error role 'a standby' 'name the primary'

  local here=${postgres_sockets//\//%2F}
  DLOCK_STORE="postgres://app@$here:${postgres_port[2]},$here:${postgres_port[1]}/app" assert_doctor_finds 0 ok reachable '2 of 2'
  assert_found ok role 'is the primary; 1 on standby'

  # Nothing works without the primary.
  DLOCK_STORE="postgres://app@$here:${postgres_port[2]},$here:${postgres_port[3]}/app" assert_doctor_finds 2 warning reachable '1 of 2' 'restore the others'
}

# --- Poolers ---

@test "a pooler in transaction mode is recognized, and doctor says what is slower there" {
  use_shared_postgres
  use_pgbouncer

  DLOCK_STORE="$pooled" assert_doctor_finds 0 info pooler 'a pooler is in between, which may share sessions among transactions' 'add listen=on to the URL if the pooler is in session mode'
  assert_found info notifications 'not checked: sessions do not listen behind a pooler'
  # Of watch it says what is true: events arrive.
  refute_output_contains 'does not work'
  dlock watch --store "$pooled" > "$BATS_TEST_TMPDIR/events" 3>&- &
  eventually watcher_is_known
  dlock run --store "$pooled" job -- true
  eventually grep -q released "$BATS_TEST_TMPDIR/events"
}
watcher_is_known() { [[ $(sql 'SELECT count(*) FROM dlock.watcher') == 1 ]]; }

@test "what the URL says of a pooler, doctor does not advise" {
  use_shared_postgres
  use_pgbouncer 'pool_mode = session'

  DLOCK_STORE="$pooled?listen=on" assert_doctor_finds 0 info pooler 'shares no session'
  refute_output_contains 'listen=on to'
  assert_found ok notifications 'they arrive'
}

@test "the console of a pooler is no database for locks" {
  use_shared_postgres
  use_pgbouncer

  run dlock doctor --store "${pooled%/app}/pgbouncer"

  assert_status 2
  assert_output_contains error
  run dlock run --store "${pooled%/app}/pgbouncer" job -- true
  assert_message 78
}
