#!/usr/bin/env bats
# Fences that are checked in the transaction of an application, with a real table; and what of
# limits and cached values is PostgreSQL's own.

load postgres
tests_share_postgres

setup() {
  load support
  use_shared_postgres
  dlock run job -- true # makes the schema
  sql 'CREATE TABLE account (id integer PRIMARY KEY, balance integer);
    INSERT INTO account VALUES (1, 100);
    CREATE ROLE shop LOGIN; GRANT SELECT, UPDATE ON account TO shop'
}

balance() { sql 'SELECT balance FROM account'; }

# An application, which has no right on dlock's tables.
may_admit() {
  sql 'GRANT USAGE ON SCHEMA dlock TO shop; GRANT EXECUTE ON FUNCTION dlock.admit TO shop'
}
as_shop() { postgres_sql 1 "$1" -U shop "${@:2}"; } # <statements>

# Begins a transaction of the application that goes on when it is told to. Sets $writer.
begin_transaction() { # <name> <fence> <new balance>
  local to=$BATS_TEST_TMPDIR/$1
  mkfifo "$to"
  as_shop '' -v VERBOSITY=verbose < "$to" > "$to.out" 2>&1 -f - 3>&- &
  writer=$!
  exec {input}> "$to"
  echo "BEGIN; SELECT dlock.admit('account', $2); UPDATE account SET balance = $3;
    SELECT 'has written';" >&"$input"
}
commit() { printf 'COMMIT;\n\\q\n' >&"$1"; } # <descriptor>
has_written() { grep -q 'has written' "$BATS_TEST_TMPDIR/$1.out"; }
is_blocked() { [[ $(sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'shop' AND wait_event_type = 'Lock'") -gt 0 ]]; }

@test "of two transactions the older one, which comes late, is refused, and changes nothing" {
  local older newer
  may_admit
  older=$(dlock run account -- printenv DLOCK_FENCE)
  newer=$(dlock run account -- printenv DLOCK_FENCE)
  begin_transaction newer "$newer" 300
  local newer_writer=$writer newer_input=$input
  eventually has_written newer

  begin_transaction older "$older" 200
  eventually is_blocked
  commit "$newer_input"
  assert_exits 0 "$newer_writer"
  assert_exits 3 "$writer" # psql ends at the first error

  assert_equal "$(balance)" 300
  grep -q 'DLF01.*a greater fence than' "$BATS_TEST_TMPDIR/older.out"
}

@test "a newer transaction waits for the end of an older one that was admitted before" {
  may_admit
  begin_transaction older 1 200
  local older_writer=$writer older_input=$input
  eventually has_written older

  begin_transaction newer 2 300
  eventually is_blocked
  commit "$older_input"
  assert_exits 0 "$older_writer"
  commit "$input"
  assert_exits 0 "$writer"

  assert_equal "$(balance)" 300
}

@test "an application that was not granted the function cannot use it, and needs no right on tables" {
  run as_shop "SELECT dlock.admit('account', 1)"
  assert_status 1
  assert_output_contains 'permission denied'

  may_admit
  as_shop "SELECT dlock.admit('account', 5)"

  run as_shop 'SELECT * FROM dlock.fence'
  assert_status 1
  run as_shop "SELECT dlock.admit('account', 4)"
  assert_status 1
  assert_output_contains 'a greater fence than 4 was admitted for account'
  run as_shop "SELECT dlock.admit('account', NULL)"
  assert_status 1
}

@test "dlock fence and the function have one register for each resource and namespace" {
  may_admit
  dlock fence account 7

  run as_shop "SELECT dlock.admit('account', 6)"
  assert_status 1
  as_shop "SELECT dlock.admit('account', 8)"
  as_shop "SELECT dlock.admit('account', 3, 'other')"

  run dlock fence account 7
  assert_status 76
  run dlock fence --namespace other account 2
  assert_status 76
  dlock fence --namespace other account 3
}

@test "another search_path changes nothing" {
  may_admit
  sql "CREATE SCHEMA evil; CREATE FUNCTION evil.lesser(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
    CREATE OPERATOR evil.<= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.lesser);
    GRANT USAGE ON SCHEMA evil TO shop, app;
    ALTER ROLE shop SET search_path = evil, pg_catalog; ALTER ROLE app SET search_path = evil, pg_catalog"
  dlock fence account 7

  run as_shop "SELECT dlock.admit('account', 6)"
  assert_status 1
  run dlock fence account 6
  assert_status 76
}

# --- Limits and cached values ---

@test "a limit and its register hold with a role that reads only by default, and in serializable transactions" {
  sql "ALTER ROLE app SET default_transaction_read_only = on;
    ALTER ROLE app SET default_transaction_isolation = 'serializable'"

  dlock limit api 2/1h
  dlock fence disk 4
  assert_equal "$(dlock cache report -- echo 42)$(dlock cache report -- echo 43)" 4242
  dlock limit api 2/1h

  run dlock limit api 2/1h
  assert_status 75
  dlock cache --forget report
  assert_equal "$(dlock cache report -- echo 44)" 44
}

@test "a limit admits exactly its number among many callers at once" {
  local i admitted=0 pids=()
  for i in {1..12}; do
    dlock limit --store-timeout 20s api 5/1h 2> /dev/null 3>&- &
    pids+=($!)
  done

  for i in "${pids[@]}"; do if wait "$i"; then admitted=$((admitted + 1)); fi; done

  assert_equal "$admitted" 5
}

@test "rows that this version cannot read are refused with the reason" {
  dlock limit api 2/1h
  sql "UPDATE dlock.rate SET state = 'nonsense'"
  run dlock limit api 2/1h
  assert_status 78
  assert_output_contains 'the limit api is damaged'
  assert_output_contains 'dlock limit --reset'

  sql 'UPDATE dlock.rate SET format = 99'
  run dlock limit api 2/1h
  assert_status 78
  assert_output_contains 'the limit api was written by a newer dlock'
  dlock limit --reset api
  dlock limit api 2/1h
}

@test "a large value is kept in pieces, and a missing piece is found" {
  head -c 700000 /dev/urandom > "$BATS_TEST_TMPDIR/large"
  dlock cache report -- cat "$BATS_TEST_TMPDIR/large" > "$BATS_TEST_TMPDIR/out"
  cmp "$BATS_TEST_TMPDIR/large" "$BATS_TEST_TMPDIR/out"
  dlock cache report -- false | cmp "$BATS_TEST_TMPDIR/large" -
  assert_equal "$(sql 'SELECT count(*) FROM dlock.piece')" 3

  sql 'DELETE FROM dlock.piece WHERE number = 1'
  run dlock cache report -- echo again

  assert_status 0
  assert_output_contains 'the stored value is incomplete'
  assert_equal "$(dlock cache report -- false)" again
  assert_equal "$(sql 'SELECT count(*) FROM dlock.piece')" 1
}
