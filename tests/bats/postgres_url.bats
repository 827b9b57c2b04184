#!/usr/bin/env bats
# URLs of PostgreSQL and what they leave open: variables, password files, several servers.
# shellcheck disable=SC2034  # variables that the helpers use and set

load postgres
tests_share_postgres

over_tcp() { DLOCK_STORE=$(postgres_tcp_url 1); }

# Of the output of `config`: "VALUE FROM".
shown() { awk -v name="$1" '$1 == name { $1 = ""; print substr($0, 2) }' <<< "$output"; }  # <setting>

@test "config shows which variables of libpq are in force, and no secret" {
  export PGUSER=app PGPORT=${postgres_port[1]} PGPASSWORD=hidden PGSSLMODE=require PGDATABASE=other
  DLOCK_STORE=postgres://127.0.0.1/app run dlock config
  assert_status 0
  assert_equal "$(shown store)" "postgres://app@127.0.0.1:${postgres_port[1]}/app?sslmode=require DLOCK_STORE"
  assert_equal "$(shown user)" 'app PGUSER'
  assert_equal "$(shown password)" '*** PGPASSWORD'
  assert_equal "$(shown store.port)" "${postgres_port[1]} PGPORT"
  assert_equal "$(shown store.sslmode)" 'require PGSSLMODE'
  refute_output_contains hidden
  refute_output_contains PGDATABASE

  DLOCK_STORE=postgres://127.0.0.1/app DLOCK_USER=me run dlock config --json
  assert_equal "$(json '.settings[] | select(.setting == "user") | .value + .origin')" meDLOCK_USER
  assert_equal "$(json '.settings[] | select(.setting == "password") | .value + .source + .origin')" '***variablePGPASSWORD'
}

@test "a host among the parameters takes the place of the one before the /, with its port" {
  DLOCK_STORE="postgres://app@localhost:${postgres_port[1]}/app?host=$postgres_sockets" run dlock run job -- echo started
  assert_equal "$status $output" '0 started'
}

@test "config shows the store timeout that the URL or a variable allows, unless the option is set" {
  export PGCONNECT_TIMEOUT=4
  DLOCK_STORE=postgres://app@127.0.0.1/app run dlock config
  assert_equal "$(shown store-timeout)" '4s PGCONNECT_TIMEOUT'
  DLOCK_STORE='postgres://app@127.0.0.1/app?connect_timeout=9' run dlock config
  assert_equal "$(shown store-timeout)" '9s DLOCK_STORE'
  DLOCK_STORE='postgres://app@127.0.0.1/app?connect_timeout=9' run dlock config --store-timeout 3s
  assert_equal "$(shown store-timeout)" '3s --store-timeout'
}

@test "config shows the password file that is in force, and why one is not" {
  over_tcp
  (umask 077 && echo '127.0.0.1:*:app:app:hidden' > "$HOME/.pgpass")
  run dlock config
  assert_equal "$(shown password)" "*** $HOME/.pgpass"
  refute_output_contains hidden

  # As secrets are mounted: a group can read it.
  chmod 440 "$HOME/.pgpass"
  run dlock config
  assert_equal "$(shown password)" "*** $HOME/.pgpass"

  expose "$HOME/.pgpass"
  run dlock config
  assert_status 0
  assert_equal "$(shown password)" "- password file $HOME/.pgpass: every user of this machine can read it (chmod o-r, or mount it with mode 0440)"
}

# Every user can read it from now on.
expose() {  # <file>
  local directory=${1%/*}
  chmod 644 "$1"
  while [[ $directory == /tmp/* || $directory == "$BATS_TEST_TMPDIR"* ]]; do
    chmod o+x "$directory"
    directory=${directory%/*}
  done
}

@test "a password file that others can read is refused, but only where a password is needed" {
  echo "*:*:*:*:$postgres_password" > "$HOME/.pgpass"
  expose "$HOME/.pgpass"
  dlock run job -- true

  over_tcp
  run dlock run job -- true

  assert_message 77
  assert_output_contains "password required: password file $HOME/.pgpass: every user of this machine can read it (chmod o-r"
}

@test "inside a run with the password in its URL, the message says that it is not passed on" {
  local url
  url="postgres://app:only%20(us)%20%25%24%3A%40%2F@127.0.0.1:${postgres_port[1]}/app"
  unset DLOCK_STORE
  run dlock run --store "$url" job -- sh -c '"$0" check; echo "$?"' "$(command -v dlock)"
  assert_equal "${lines[1]}" 77
  assert_output_contains 'does not pass on the password'
  assert_output_contains '(--store)'
  run dlock run --store "$url" job -- sh -c '"$0" check --store "$1" && echo held' "$(command -v dlock)" "$url"
  assert_equal "$output" held
}

@test "the command can use the same store without the variables, and with another directory" {
  export PGHOST=$postgres_sockets PGPORT=${postgres_port[1]} PGUSER=app
  (umask 077 && echo '*:*:*:*:x' > "$BATS_TEST_TMPDIR/passwords")
  cd "$BATS_TEST_TMPDIR"
  DLOCK_STORE='postgres:///?passfile=passwords&dlock_schema=other' run dlock run job -- \
    sh -c 'cd / && echo "$DLOCK_STORE" && unset PGHOST PGPORT PGUSER && "$0" check && echo held' "$(command -v dlock)"

  assert_status 0
  assert_equal "$output" "postgres://app@/app?host=$postgres_sockets&port=${postgres_port[1]}&dlock_schema=other&passfile=$BATS_TEST_TMPDIR/passwords
held"
}

@test "options for TLS are refused where there is none" {
  run dlock --tls-insecure --store "$(postgres_url 1)" run job -- true
  assert_status 78
  assert_output_contains 'postgres://'
  run dlock --tls-insecure --store "$(postgres_tcp_url 1)?sslmode=disable" run job -- true
  assert_status 78
}

@test "a server among several that does not exist costs nothing" {
  DLOCK_STORE="postgres://app@127.0.0.1:${postgres_port[2]},$(jq -rn --arg path "$postgres_sockets" '$path | @uri'):${postgres_port[1]}/app"
  run dlock run job -- echo started
  assert_equal "$status $output" '0 started'

  DLOCK_STORE=postgres://app@127.0.0.1:${postgres_port[2]},127.0.0.1:${postgres_port[3]}/app
  run dlock run --store-timeout 300ms job -- echo started
  assert_message 69 'no primary: cannot reach 127.0.0.1:'
}
