#!/usr/bin/env bats
# What dlock makes of a PostgreSQL database: its schema and who needs which rights, names in
# any encoding, and databases and servers that are not as they should be.
# shellcheck disable=SC2086  # words

load postgres
tests_share_postgres

is_told() { jq -r .event "$said" | grep -qx "$1"; }
is_watched() { [[ $(sql 'SELECT count(*) FROM dlock.watcher') == [1-9]* ]]; }

# --- The schema ---

@test "the schema is made on first use, even by twenty first users at once" {
  for number in {1..20}; do
    dlock run --ttl 2m --store-timeout 30s "job-$number" -- "${noting[@]}" "$order" "$number" 2>> "$said" 3>&- &
    users+=($!)
  done
  for user in "${users[@]}"; do assert_exits 0 "$user"; done

  assert_equal "$(wc -l < "$order") $(cat "$said")" '20 '
  assert_equal "$(sql 'SELECT count(*) FROM dlock.lock')" 20
}

@test "each verb makes the schema on first use, or shows that there is nothing yet" {
  while read -r expected verb; do
    sql 'DROP SCHEMA IF EXISTS dlock CASCADE' 2> /dev/null
    run dlock $verb
    assert_equal "$verb $status" "$verb $expected"
  done << 'END'
0 run job -- true
0 acquire --ttl 5s job
76 release job --token 0123456789abcdef0123456789abcdef
76 renew job --token 0123456789abcdef0123456789abcdef
1 status job
0 list
0 history job
0 fence disk 7
0 limit api 1/1h
0 cache --ttl 1h value -- true
1 break --force --yes job
END
}

@test "a table that is missing is made again, and the others keep their rows" {
  dlock run job -- true
  dlock fence disk 7
  while read -r table verb; do
    sql "DROP TABLE dlock.$table CASCADE" 2> /dev/null
    dlock $verb
    assert_equal "$table $(sql "SELECT count(*) FROM dlock.fence")" "$table 1"
  done << 'END'
rate limit api 5/1h
value cache --ttl 1h value -- true
piece cache --ttl 1h other -- true
lock run job -- true
END
  sql 'DROP TABLE dlock.watcher'
  dlock watch > "$said" 3>&- &
  eventually is_watched
  sql 'DROP TABLE dlock.fence'
  dlock fence disk 3
}

@test "a role needs the rights on one schema and its tables, and nothing else" {
  dlock run job -- true
  sql 'CREATE ROLE granted LOGIN; GRANT USAGE ON SCHEMA dlock TO granted;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dlock TO granted;
    REVOKE ALL ON SCHEMA public FROM PUBLIC; REVOKE TEMPORARY ON DATABASE app FROM PUBLIC'
  DLOCK_STORE=$(postgres_url 1 granted)

  hold job
  queue job -- "${noting[@]}" "$order" waited
  dlock watch --json > "$said" 3>&- &
  eventually is_watched
  let_go
  assert_exits 0 "$waiter"
  eventually is_told released
  dlock fence disk 7
  dlock limit api 2/1h
  dlock cache --ttl 1h value -- echo 42
  dlock list
  dlock history job
  dlock acquire --ttl 60s job > /dev/null
  dlock break --yes job

  run dlock doctor
  refute_output_contains error
}

@test "members of the group that owns the database or the schema share the locks, and none of them owns them" {
  # As of a vault, which makes a role for an hour and drops it.
  sql 'CREATE ROLE crew; CREATE ROLE first LOGIN IN ROLE crew; CREATE ROLE second LOGIN IN ROLE crew;
    CREATE ROLE reader LOGIN NOINHERIT IN ROLE crew; GRANT CREATE ON DATABASE app TO crew'
  for owns in 'CREATE SCHEMA dlock AUTHORIZATION crew' 'ALTER DATABASE app OWNER TO crew'; do
    sql "$owns"
    dlock --store "$(postgres_url 1 first)" run job -- true
    for role in second first; do
      dlock --store "$(postgres_url 1 "$role")" run job -- true
      dlock --store "$(postgres_url 1 "$role")" limit api 9/1h
      run dlock --store "$(postgres_url 1 "$role")" doctor
      refute_output_contains error
    done
    # A table of a later version, made by another member.
    sql 'DROP TABLE dlock.fence CASCADE'
    dlock --store "$(postgres_url 1 second)" fence disk 7
    dlock --store "$(postgres_url 1 first)" fence disk 8
    run dlock --store "$(postgres_url 1 reader)" run job -- echo started
    [[ $status == @(77|78) ]]
    assert_one_line
    sql 'DROP ROLE first; CREATE ROLE first LOGIN IN ROLE crew'
    sql 'SET client_min_messages = warning; DROP SCHEMA dlock CASCADE'
  done
  sql 'ALTER DATABASE app OWNER TO app'
  # A superuser and the owner themselves make their own.
  dlock --store "$(postgres_url 1 postgres)" run job -- true
  assert_equal "$(sql "SELECT tableowner FROM pg_tables WHERE tablename = 'lock' AND schemaname = 'dlock'")" postgres
}

@test "another schema can be named, and only its tables are used" {
  dlock --store "$DLOCK_STORE&dlock_schema=other_1" run job -- true

  assert_equal "$(sql "SELECT count(*) FROM other_1.lock")" 1
  assert_equal "$(sql "SELECT count(*) FROM pg_namespace WHERE nspname = 'dlock'")" 0
  for name in 'a b' 'a"b' "a'b" '' 'a;b'; do
    run dlock --store "$DLOCK_STORE&dlock_schema=$name" run job -- true
    [[ $status == @(64|78) ]]
    assert_one_line
  done
}

@test "a schema of that name that is not dlock's is left alone" {
  sql 'CREATE SCHEMA dlock AUTHORIZATION app; CREATE TABLE dlock.lock (id int, who text)'

  for verb in 'run job -- echo started' 'status job' 'list'; do
    run dlock $verb
    [[ $status == @(77|78) ]]
    assert_one_line
  done

  assert_equal "$(sql "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'dlock' AND table_name = 'lock'")" 2
}

# A role that may create schemas, and what it would like to run with the rights of others.
use_mallory() {
  sql "CREATE ROLE mallory LOGIN; CREATE ROLE victim LOGIN; GRANT CREATE ON DATABASE app TO mallory"
  mallory=$(postgres_url 1 mallory)
}
as_mallory() { sql "SET client_min_messages = warning; SET SESSION AUTHORIZATION mallory; $1"; }
evil="CREATE FUNCTION dlock.evil() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN ALTER ROLE mallory SUPERUSER; END IF; RETURN NEW; END \$\$;
  CREATE FUNCTION dlock.evil_text() RETURNS text LANGUAGE plpgsql AS \$\$ BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN ALTER ROLE mallory SUPERUSER; END IF; RETURN ''; END \$\$;
  GRANT ALL ON SCHEMA dlock TO PUBLIC; GRANT ALL ON ALL TABLES IN SCHEMA dlock TO PUBLIC"
assert_refused_to() {  # <role> <what the message names>
  local verb
  for verb in 'run job -- echo started' 'status job' 'list' 'history job' 'break --yes job' 'acquire job' 'fence disk 7' \
    'limit api 5/1h' 'cache value -- echo started' 'watch'; do
    run timeout 60 dlock --store "$(postgres_url 1 "$1")" $verb
    assert_message 78 "$2"
  done
  assert_equal "$(sql "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'")" f
}

@test "a schema that another role has made runs nothing with the rights of others" {
  use_mallory
  for trap in 'CREATE TRIGGER t BEFORE INSERT OR UPDATE ON dlock.lock FOR EACH ROW EXECUTE FUNCTION dlock.evil()' \
    'ALTER TABLE dlock.lock ADD CHECK (dlock.evil_text() IS NOT NULL) NOT VALID' \
    'ALTER TABLE dlock.lock ADD COLUMN more text DEFAULT dlock.evil_text()' \
    'CREATE RULE r AS ON INSERT TO dlock.lock DO ALSO SELECT dlock.evil_text()' \
    'CREATE DOMAIN dlock.d AS text CHECK (dlock.evil_text() IS NOT NULL); DROP VIEW dlock.locks; ALTER TABLE dlock.lock ALTER COLUMN state TYPE dlock.d' \
    'ALTER TABLE dlock.lock RENAME TO old; CREATE VIEW dlock.lock AS SELECT namespace, name, version, format, state || dlock.evil_text() AS state, runs, refused, due, keep_until FROM dlock.old'; do
    dlock --store "$mallory" run job -- true
    as_mallory "$evil; $trap"
    assert_refused_to postgres 'belongs to mallory'
    run dlock --store "$(postgres_url 1 postgres)" doctor
    assert_status 2
    assert_output_contains 'belongs to mallory'
    [[ $trap == *RENAME* ]] || assert_output_contains 'not made by dlock'
    # Nor if someone has given it to the owner of the database.
    sql "ALTER SCHEMA dlock OWNER TO app; DO \$\$ DECLARE t text; BEGIN FOR t IN SELECT oid::regclass FROM pg_class
      WHERE relnamespace = 'dlock'::regnamespace AND relkind IN ('r', 'v') LOOP EXECUTE 'ALTER TABLE ' || t || ' OWNER TO app'; END LOOP; END \$\$"
    run dlock --store "$(postgres_url 1 postgres)" run job -- echo started
    assert_message 78 'belongs to mallory'
    assert_output_contains 'DROP'
    assert_equal "$(sql "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'")" f
    sql 'SET client_min_messages = warning; DROP SCHEMA dlock CASCADE'
  done
  # The question about the owner does not depend on the name.
  for schema in 123 dlock; do
    dlock --store "$mallory&dlock_schema=$schema" run job -- true
    run dlock --store "$(postgres_url 1 postgres)&dlock_schema=$schema" run job -- echo started
    assert_status 78
    as_mallory "DROP SCHEMA \"$schema\" CASCADE"
  done
  # One that has nothing yet, and one in which the owner of the database has made the tables.
  as_mallory 'CREATE SCHEMA dlock; GRANT ALL ON SCHEMA dlock TO PUBLIC'
  assert_refused_to postgres 'the schema dlock belongs to mallory'
  assert_refused_to app 'the schema dlock belongs to mallory'
  as_mallory 'ALTER SCHEMA dlock RENAME TO away'
  dlock run job -- true
  sql 'ALTER SCHEMA dlock OWNER TO mallory'
  assert_refused_to postgres 'the schema dlock belongs to mallory'
}

@test "a table or a trigger that another role has planted in dlock's schema runs nothing" {
  use_mallory
  dlock run job -- true
  sql 'GRANT ALL ON SCHEMA dlock TO mallory; GRANT ALL ON ALL TABLES IN SCHEMA dlock TO mallory'
  as_mallory "${evil%%GRANT*}
    CREATE TRIGGER t BEFORE INSERT OR UPDATE ON dlock.lock FOR EACH ROW EXECUTE FUNCTION dlock.evil()"
  assert_refused_to postgres 'the trigger t on lock belongs to mallory'
  sql 'DROP TRIGGER t ON dlock.lock; ALTER TABLE dlock.rate RENAME TO old; GRANT mallory TO app'
  as_mallory 'CREATE TABLE dlock.rate (LIKE dlock.old INCLUDING INDEXES)'
  assert_refused_to postgres 'the table dlock.rate belongs to mallory'
  run dlock run job -- echo started  # for a member of mallory it is fine
  assert_equal "$status $output" '0 started'
}

@test "a trigger of someone who is trusted is executed, and doctor names it" {
  dlock run job -- true
  sql 'CREATE TABLE public.audit (name text); GRANT ALL ON public.audit TO PUBLIC'
  sql "SET SESSION AUTHORIZATION app; CREATE FUNCTION dlock.note() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
      INSERT INTO public.audit VALUES (NEW.name); RETURN NEW; END \$\$;
    CREATE TRIGGER noted AFTER UPDATE ON dlock.lock FOR EACH ROW EXECUTE FUNCTION dlock.note()"

  run dlock run job -- echo started

  assert_equal "$status $output" '0 started'
  (($(sql 'SELECT count(*) FROM public.audit') > 0))
  run dlock doctor
  assert_output_contains 'not made by dlock, in or on its schema dlock: function note, trigger noted on lock'
}

@test "a schema of the owner of the database, of a superuser or of a group of the role is used" {
  sql 'CREATE ROLE one LOGIN; CREATE ROLE team; GRANT team TO one'
  DLOCK_STORE=$(postgres_url 1 one)
  sql 'REVOKE CONNECT ON DATABASE app FROM PUBLIC'
  run dlock run job -- echo started
  assert_message 77 'dlock doctor --schema'
  for owner in app postgres team one; do
    sql "DROP SCHEMA IF EXISTS dlock CASCADE; GRANT CREATE ON DATABASE app TO $owner"
    dlock doctor --schema | sed "s/^BEGIN;/BEGIN; SET LOCAL ROLE $owner;/" > "$BATS_TEST_TMPDIR/schema.sql"
    "$postgres_programs/psql" -XqAt -v ON_ERROR_STOP=1 -f "$BATS_TEST_TMPDIR/schema.sql" "$(postgres_url 1 postgres)"
    run dlock run job -- echo started
    assert_equal "$status $output" '0 started'
  done
  run dlock doctor
  refute_output_contains 'belongs to'
  sql 'GRANT CONNECT ON DATABASE app TO PUBLIC'
}

@test "rows that row-level security hides are no answer to any verb" {
  sql 'CREATE ROLE job LOGIN'
  hold nightly
  sql 'GRANT USAGE ON SCHEMA dlock TO job; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dlock TO job;
    ALTER TABLE dlock.lock ENABLE ROW LEVEL SECURITY; ALTER TABLE dlock.rate ENABLE ROW LEVEL SECURITY'
  DLOCK_STORE=$(postgres_url 1 job)
  for verb in 'status nightly' 'status --quiet nightly' 'list' 'history nightly' 'history nightly --succeeded-within 1d' \
    'break --yes nightly' 'run nightly -- echo started' 'acquire nightly' 'limit api 5/1h' 'watch' 'run --wait 1s nightly -- echo started'; do
    run timeout 60 dlock $verb
    assert_message 77 'row-level security hides rows of'
  done
  run dlock history nightly --succeeded-within 1d --nagios
  assert_status 3
  run dlock list --prometheus
  assert_status 77
  assert_output_contains 'dlock_up{namespace="dlock"} 0'
  sql 'ALTER TABLE dlock.lock DISABLE ROW LEVEL SECURITY; ALTER TABLE dlock.rate DISABLE ROW LEVEL SECURITY'
  dlock status nightly
}

@test "a search path, time zone or other settings of the role change nothing" {
  sql "CREATE SCHEMA trap; GRANT USAGE ON SCHEMA trap TO app;
    CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS \$\$ SELECT '1999-01-01'::timestamptz \$\$;
    CREATE FUNCTION trap.eq(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true';
    CREATE OPERATOR trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.eq);
    ALTER ROLE app SET search_path = trap, pg_catalog;
    ALTER ROLE app SET TimeZone = 'Asia/Kathmandu'; ALTER ROLE app SET DateStyle = 'German';
    ALTER ROLE app SET bytea_output = 'escape'; ALTER ROLE app SET extra_float_digits = -15;
    ALTER ROLE app SET client_encoding = 'LATIN1'; ALTER ROLE app SET synchronous_commit = off;
    ALTER ROLE app SET default_transaction_read_only = on;
    ALTER ROLE app SET default_transaction_isolation = 'serializable'"
  hold 'jöb'
  queue 'jöb' -- "${noting[@]}" "$order" waited

  run dlock run other -- echo started
  assert_equal "$status $output" '0 started'
  assert_between "$(look 'jöb' '.holders[0].expires_in_ms')" 1000 30000
  assert_equal "$(dlock cache report -- echo kept)" kept
  dlock limit api 2/1h
  dlock fence disk 7
  let_go
  assert_exits 0 "$waiter"
}

# --- Names and encodings ---

@test "a name that the encoding of the database lacks is refused, and others are not" {
  sql "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' OWNER app"
  sql "CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' OWNER app"

  DLOCK_STORE=$(postgres_url 1 app latin)
  run dlock run 'jöb' -- sh -c 'dlock list --json | jq -r ".[].name"' '語'
  assert_equal "$status $output" '0 jöb'
  for verb in run acquire status; do
    words=("$verb" '語')
    [[ $verb != run ]] || words+=(-- echo started)
    run dlock "${words[@]}"
    assert_message 78 'use another name, or a database with the encoding UTF8'
  done
  DLOCK_STORE=$(postgres_url 1 app bytes)
  run dlock run '語' -- sh -c 'dlock list --json | jq -r ".[].name"'
  assert_equal "$status $output" '0 語'
}

# --- Wrong servers, and wrong data ---

# Asserts that the store is refused in one line, with one of these exit codes.
assert_store_is_refused() {  # <pattern of exit codes> <part of what it says>
  run timeout 60 dlock --store-timeout 1s run job -- echo started
  # shellcheck disable=SC2053  # a pattern
  [[ $status == $1 ]] || { echo "$status: $output" >&2; return 1; }
  assert_one_line
  assert_output_contains "$2"
}

@test "a web server and a Redis server are no PostgreSQL" {
  "$DLOCK_SOURCE/tests/faults/fake_server" "$BATS_TEST_TMPDIR/port" \
    'HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n' 3>&- &
  eventually test -s "$BATS_TEST_TMPDIR/port"
  DLOCK_STORE="postgres://app@127.0.0.1:$(< "$BATS_TEST_TMPDIR/port")/app?sslmode=disable"
  assert_store_is_refused 69 'PostgreSQL'
  DLOCK_STORE=postgres://app@127.0.0.1:$(< "$BATS_TEST_TMPDIR/port")/app
  assert_store_is_refused '@(69|77)' ''

  redis-server --port "${postgres_port[3]}" --bind 127.0.0.1 --save '' > /dev/null 3>&- &
  eventually accepts_connections "${postgres_port[3]}"
  DLOCK_STORE=postgres://app@127.0.0.1:${postgres_port[3]}/app
  assert_store_is_refused 69 ''
}

@test "other databases that speak the protocol are named" {
  while IFS='|' read -r status_message product; do
    rm -f "$BATS_TEST_TMPDIR/port"
    "$DLOCK_SOURCE/tests/faults/fake_server" "$BATS_TEST_TMPDIR/port" \
      "R\\0\\0\\0"$'\x08'"\\0\\0\\0\\0S\\0\\0\\0${status_message}Z\\0\\0\\0"$'\x05I' 3>&- &
    eventually test -s "$BATS_TEST_TMPDIR/port"
    DLOCK_STORE="postgres://app@127.0.0.1:$(< "$BATS_TEST_TMPDIR/port")/app?sslmode=disable"
    assert_store_is_refused 78 "$product; dlock needs PostgreSQL"
  done << 'END'
!crdb_version\0CockroachDB v23\0|is CockroachDB
%padb_version\0PostgreSQL 8.0.2 on\0|is Amazon Redshift
END
}

@test "a damaged state is refused by every verb, and the lock begins anew once its row is deleted" {
  deep=$(printf '[%.0s' {1..5000})
  for state in '' '{' 'null' '[]' '{"holders":7}' 'no JSON' "{\"a\":$deep" '{"fence":-1}' '{"fence":1e400}'; do
    dlock run job -- true
    sql "UPDATE dlock.lock SET state = '$state'"
    for verb in 'run job -- echo started' 'acquire job' 'status job' 'break --force --yes job'; do
      run dlock $verb
      assert_equal "$verb '${state:0:20}': $status" "$verb '${state:0:20}': 78"
      assert_one_line
      assert_output_contains 'delete the row from dlock.lock'
    done
    sql 'DELETE FROM dlock.lock'
    dlock run job -- true
  done
}

@test "what the owner of the database does to the tables meanwhile is refused in one line" {
  dlock run job -- true
  while read -r change; do
    sql "$change" 2> /dev/null
    run dlock run job -- echo started
    [[ $status == @(0|69|77|78) ]] || { echo "$change: $status $output" >&2; return 1; }
    ((status == 0)) || assert_one_line
    [[ $change != *RAISE* || $status == 78 && $output == *'no more: a trigger of the database raised this' ]]
    [[ $change != *'RETURN NULL'* || $status == 78 && $output == *' of the table dlock.lock drops what dlock writes' ]]
    sql 'DROP SCHEMA IF EXISTS dlock CASCADE' 2> /dev/null
    dlock run job -- true
  done << 'END'
ALTER TABLE dlock.lock DROP COLUMN state CASCADE
ALTER TABLE dlock.lock RENAME TO loch
ALTER TABLE dlock.lock ADD COLUMN more text
DELETE FROM dlock.lock; DROP VIEW dlock.locks; ALTER TABLE dlock.lock ALTER runs TYPE varchar(3)
REVOKE ALL ON dlock.lock FROM app
ALTER SCHEMA dlock RENAME TO block
ALTER TABLE dlock.lock ADD CHECK (name OPERATOR(pg_catalog.<>) 'job') NOT VALID
CREATE FUNCTION dlock.no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$no more$$; END'; CREATE TRIGGER no BEFORE INSERT OR UPDATE ON dlock.lock EXECUTE FUNCTION dlock.no()
CREATE FUNCTION dlock.no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER no BEFORE UPDATE ON dlock.lock FOR EACH ROW EXECUTE FUNCTION dlock.no()
DELETE FROM dlock.lock; CREATE FUNCTION dlock.no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER no BEFORE INSERT ON dlock.lock FOR EACH ROW EXECUTE FUNCTION dlock.no()
END
}

drop_key() {  # <table>
  sql "DO \$\$ BEGIN EXECUTE (SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
    FROM pg_constraint WHERE contype = 'p' AND conrelid = 'dlock.$1'::regclass); END \$\$"
}
@test "a table without its key, or unlogged, is refused with what to write, and one that is inherited" {
  dlock run job -- true
  for change in SELECT 'ALTER TABLE dlock.lock ADD UNIQUE (namespace, name) DEFERRABLE' 'ALTER TABLE dlock.lock ADD UNIQUE (name)' \
    'CREATE INDEX lock_pkey ON dlock.lock (namespace, name)' 'ALTER TABLE dlock.lock SET UNLOGGED'; do
    [[ $change == *SET* ]] || drop_key lock
    sql "$change"
    run dlock run new -- echo started
    assert_message 78 "$([[ $change == *SET* ]] && echo 'is not logged' || echo 'lacks its unique key')"
    sql 'DROP INDEX IF EXISTS dlock.lock_pkey' 2> /dev/null || true
    sql "$(dlock doctor | grep -o 'ALTER TABLE.*')"
    dlock run job -- true
  done
  while read -r table verb; do
    drop_key "$table"
    run dlock $verb
    assert_message 78 'lacks its unique key'
    sql "$(dlock doctor | grep -o 'ALTER TABLE.*')"
  done <<< 'fence fence disk 7
rate limit calls 5/1h
value cache --ttl 1m value -- date'
  drop_key lock
  sql 'CREATE UNIQUE INDEX ON dlock.lock (name, namespace) INCLUDE (version)'
  dlock run job -- true
  sql 'CREATE TABLE child () INHERITS (dlock.lock)'
  run dlock run job -- echo started
  assert_message 78 'tables that inherit'
}

# --- Many rows, and large ones that others have written ---

@test "a namespace with many locks is listed in pages, and a row of another kind is left out" {
  dlock run job -- true
  sql "INSERT INTO dlock.lock SELECT namespace, 'j' || lpad(g::text, 5, '0'), version, format, state, runs, refused, due, keep_until
    FROM dlock.lock, generate_series(1, 2500) g"
  # A page ends early where rows are long.
  sql "UPDATE dlock.lock SET state = '{\"unknown\":\"' || repeat('x', 800000) || '\",' || substr(state, 2)
    WHERE name BETWEEN 'j00100' AND 'j00110'"
  assert_equal "$(dlock list --store-timeout 10s --json | jq -r '.[].name' | sort -u | wc -l)" 2501
  dlock history --store-timeout 10s --json > "$BATS_TEST_TMPDIR/history"

  # One that is longer than what is read spoils no other.
  sql "UPDATE dlock.lock SET state = '{\"unknown\":\"' || repeat('x', 2000000) || '\",' || substr(state, 2) WHERE name = 'j00200'"
  code=0
  dlock list --store-timeout 10s --json > "$BATS_TEST_TMPDIR/list" 2> "$said" || code=$?
  assert_equal "$code" 78
  assert_equal "$(jq -r '.[].name' "$BATS_TEST_TMPDIR/list" | sort -u | wc -l)" 2500
  grep -q 'j00200 is damaged' "$said"
}

@test "a row of a megabyte without anything in it is damaged, and costs little memory" {
  dlock run job -- true
  for list in waiters holders answered; do
    sql "UPDATE dlock.lock SET state = '{\"fence\":1,\"slots\":1,\"$list\":[' || rtrim(repeat('{},', 340000), ',') || ']}'"
    run in_little_memory dlock status job
    assert_message 78 'is damaged'
  done
  sql "UPDATE dlock.lock SET state = '{\"fence\":1,\"slots\":1}', runs = '[' || rtrim(repeat('{},', 340000), ',') || ']'"
  run in_little_memory dlock history job
  assert_status 78
}
# The program itself has some 20 MB of data at most.
in_little_memory() (  # <command>...
  ulimit -d 100000
  "$@"
)

# --- A copy of the database ---

as_dumped() { "$postgres_programs/pg_dump" -h "$postgres_sockets" -p "${postgres_port[1]}" -U postgres app "$@"; }

@test "a database that was copied is used with a warning, and nothing that ran in the original counts as a success there" {
  dlock run job -- true
  run dlock history job --succeeded-within 1h
  assert_status 0
  run dlock doctor
  refute_output_contains 'is a copy'
  sql 'CREATE DATABASE copied OWNER app'
  as_dumped --section=pre-data --section=data | sql '' -d copied -f - > /dev/null
  original=$DLOCK_STORE
  DLOCK_STORE=$(postgres_url 1 app copied)
  run dlock history job --succeeded-within 1h
  assert_message 78 'lacks its unique key'
  as_dumped --section=post-data | sql '' -d copied -f - > /dev/null
  run dlock run other -- echo started
  assert_status 0
  assert_equal "${lines[1]}" started
  [[ ${lines[0]} == 'dlock: other: warning: '*': this database is a copy, with the locks and runs of the original: DROP SCHEMA dlock CASCADE, or, to keep them, ALTER INDEX "dlock".made_'*_*' RENAME TO lock_pkey' ]]
  to_keep_them=${lines[0]##*keep them, }
  run dlock -q history job --succeeded-within 1h
  assert_status 1
  run dlock -q run --dedupe 1h job -- echo again
  assert_equal "$output" again
  run dlock -q list --prometheus
  refute_output_contains 'dlock_last_'
  run dlock --json doctor
  assert_equal "$(json '.findings[] | select(.check == "copy").level')" warning

  # Those who keep them are not warned, nor is the original.
  sql "$to_keep_them" -d copied
  run dlock history job --succeeded-within 1h
  assert_equal "$status ${#lines[@]}" '0 1'
  DLOCK_STORE=$original run dlock run other -- echo started
  assert_equal "$status $output" '0 started'
  sql 'DROP SCHEMA dlock CASCADE' -d copied 2> /dev/null
  run dlock run other -- echo started
  assert_equal "$status $output" '0 started'
  sql 'DROP DATABASE copied'
}
