#!/usr/bin/env bats
# --password-command: passwords that a command of the user prints at each login, on every kind of
# store.
# shellcheck disable=SC2034  # the helpers set redis_password and others, and read DLOCK_STORE

setup() {
  load support
  helper=$BATS_TEST_TMPDIR/print-password
  called=$BATS_TEST_TMPDIR/called
}

use_redis() {
  load ../faults/redis
  use_redis_store || return
  unset DLOCK_PASSWORD_FILE
  password=$redis_password
}

use_postgres() {
  load postgres
  use_postgres_store || return
  DLOCK_STORE=$(postgres_tcp_url 1)
  password=$postgres_password
}

# A program that notes that it was called, with its arguments, and prints the password.
make_helper() {
  printf '%s' "$password" > "$BATS_TEST_TMPDIR/word"
  printf '#!/bin/sh\necho "$# $*" >> "%s"\ncat "%s"\necho\necho more\n' "$called" "$BATS_TEST_TMPDIR/word" > "$helper"
  chmod +x "$helper"
}

# The command of a run gets neither the password nor the variable.
check_store() {
  make_helper
  export DLOCK_STORE_TIMEOUT=10s
  run dlock run --password-command "$helper --user 'a b' \"c\"" job -- sh -c 'env; echo started'
  assert_status 0
  assert_output_contains started
  refute_output_contains "$password"
  refute_output_contains PASSWORD_COMMAND
  assert_equal "$(head -n 1 "$called")" '3 --user a b c'
  DLOCK_PASSWORD_COMMAND=$helper run dlock run job -- sh -c 'env; echo started'
  assert_status 0
  refute_output_contains PASSWORD_COMMAND

  # Its failure is one line that shows nothing of what it prints.
  while IFS='|' read -r expected command says; do
    run dlock run --password-command "$command" job -- echo started
    assert_equal "$command $status" "$command $expected"
    assert_one_line
    assert_output_contains "$says"
    refute_output_contains "${password%% *}"
  done << END
78|$helper.missing|cannot be started: no such file or directory
78|true|prints no password
69|sh -c 'cat $BATS_TEST_TMPDIR/word; exit 3'|ended with exit code 3
69|sh -c 'cat $BATS_TEST_TMPDIR/word; kill -9 \$\$'|was killed by signal 9
78|sh -c 'yes'|prints more than any password has
64|sh 'open|a quote is not closed
END
  run dlock run --store-timeout 300ms --password-command 'sleep 100' job -- echo started
  assert_message 69 'has printed no password in time'
  assert_equal "$(pgrep -x -P $$ sleep || true)" ''
}

@test "on Redis, the first line that the command prints is the password, and its failures have their codes" {
  use_redis
  check_store
}

@test "on PostgreSQL, the first line that the command prints is the password, and its failures have their codes" {
  use_postgres
  check_store
}

@test "with several servers of PostgreSQL in the URL, the command runs once" {
  use_postgres
  make_helper
  local server=${DLOCK_STORE#*@}
  server=${server%%/*}
  DLOCK_STORE=${DLOCK_STORE/$server/$server,localhost:${server#*:}} run dlock run --password-command "$helper" job -- echo started
  assert_equal "$status $output" '0 started'
  assert_equal "$(wc -l < "$called")" 1
}

@test "a run whose session was stopped logs in again with the password of that moment" {
  use_postgres
  make_helper
  sql "ALTER ROLE app PASSWORD 'token-1'"
  echo token-1 > "$BATS_TEST_TMPDIR/word"
  hold job --password-command "$helper" --wait 60s --ttl 20s
  echo token-2 > "$BATS_TEST_TMPDIR/word"
  sql "ALTER ROLE app PASSWORD 'token-2'" -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'"
  eventually logged_in_again
  let_go
  assert_exits 0 "$holder"
}
logged_in_again() { (($(sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'") > 0)); }

@test "a file and a command of the same source cannot be combined, and DLOCK_PASSWORD precedes the file's command" {
  use_redis
  make_helper
  run dlock run --password-command "$helper" --password-file x job -- true
  assert_status 64
  assert_output_contains '--password-file and --password-command cannot be combined'
  printf 'password-command = "%s"\n' "$helper" > "$BATS_TEST_TMPDIR/config.toml"
  run dlock run --config "$BATS_TEST_TMPDIR/config.toml" job -- sh -c '"$0" check && echo held' "$(command -v dlock)"
  assert_equal "$status $output" '0 held'
  rm "$called"
  DLOCK_PASSWORD=$password dlock run --config "$BATS_TEST_TMPDIR/config.toml" job -- true
  [[ ! -e $called ]]
  echo 'password-command = "./print-password"' > "$BATS_TEST_TMPDIR/config.toml"
  run dlock run --config "$BATS_TEST_TMPDIR/config.toml" job -- true
  assert_status 78
  assert_output_contains 'absolute path'
}

@test "a refused password that is in quotes, or ends with a blank or a line end, is told so, and not shown" {
  use_redis
  DLOCK_PASSWORD="$redis_password"$'\n' run dlock run job -- true
  assert_message 77 '; the password ends with a line end'
  DLOCK_PASSWORD="'$redis_password'" run dlock run job -- true
  assert_message 77 '; the password is in quotes'
  (umask 077 && echo "$redis_password " > "$BATS_TEST_TMPDIR/file")
  run dlock run --password-file "$BATS_TEST_TMPDIR/file" job -- true
  assert_status 77
  assert_output_contains '; the password ends with a blank'
  refute_output_contains "${redis_password% *}"
}

@test "a refused password that ends with a blank is told so on PostgreSQL" {
  use_postgres
  DLOCK_PASSWORD="$postgres_password " run dlock run job -- true
  assert_message 77 '; the password ends with a blank'
}
