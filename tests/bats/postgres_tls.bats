#!/usr/bin/env bats
# Logins to PostgreSQL, and TLS: which servers dlock proves itself to, which it believes, and
# that no password goes where it could be read.
# shellcheck disable=SC2086  # words

load postgres
tests_share_postgres

setup_file() {
  load support
  load certificates
  share_postgres
  cd "$BATS_FILE_TMPDIR" || return
  authority ours
  authority theirs
  signed server ours 'DNS:localhost,IP:127.0.0.1'
  signed elsewhere ours 'DNS:elsewhere.example,IP:192.0.2.1'
  signed unknown theirs 'DNS:localhost,IP:127.0.0.1'
  signed app ours 'DNS:client.example'
  signed stranger theirs 'DNS:client.example'
}

setup() {
  load support
  load certificates
  certificates=$BATS_FILE_TMPDIR
  unset SSL_CERT_FILE SSL_CERT_DIR PGPASSWORD PGPASSFILE
  use_shared_postgres
  (umask 077 && echo "$postgres_password" > "$BATS_TEST_TMPDIR/password")
}

# The server speaks TLS with this certificate from now on.
serve_tls() {  # <certificate>
  local part
  for part in crt key; do
    install -m 600 "$certificates/$1.$part" "$postgres_root/1/server.$part"
  done
  install -m 600 "$certificates/ours.crt" "$postgres_root/1/root.crt"
  owned_by_postgres "$postgres_root/1/server.crt" "$postgres_root/1/server.key" "$postgres_root/1/root.crt"
  postgres_set 1 ssl_ca_file root.crt
  postgres_set 1 ssl on
}

# Makes it the store over TCP, with these parameters in the URL.
over_tcp() {  # [<parameters>]
  DLOCK_STORE=$(postgres_tcp_url 1)${1:+?$1}
}

over_tcp_with_password() { over_tcp "$@"; export PGPASSWORD=$postgres_password; }

# Asserts that the command runs, and prints how its dlock is connected: the version of TLS, or `-`.
assert_runs() {
  run dlock run job -- sh -c '"$0" -XqAt "$1" -c "$2"' "$postgres_programs/psql" "$(postgres_url 1 postgres)" \
    "SELECT coalesce(s.version, '-') FROM pg_stat_activity a LEFT JOIN pg_stat_ssl s USING (pid) WHERE a.usename = 'app' LIMIT 1"
  assert_status 0
  assert_equal "${lines[${#lines[@]} - 1]}" "$1"
}

assert_refused() {  # <exit code> <part of what it says>
  run timeout 60 dlock --store-timeout 1s run job -- echo started
  assert_message "$1" "$2"
  [[ $output != *"$postgres_password"* ]]
}

# --- Passwords ---

@test "the password comes from dlock's own options, the URL, PGPASSWORD or a password file" {
  over_tcp
  assert_refused 77 ''
  DLOCK_PASSWORD_FILE=$BATS_TEST_TMPDIR/password assert_runs -
  DLOCK_PASSWORD=$postgres_password assert_runs -
  PGPASSWORD=$postgres_password assert_runs -
  DLOCK_STORE=${DLOCK_STORE/app@/app:only%20(us)%20%25\$%3A%40%2F@} assert_runs -

  passwords=$BATS_TEST_TMPDIR/passwords
  (umask 077 && printf '%s\n' '# comment' "elsewhere:*:*:*:wrong" \
    "127.0.0.1:${postgres_port[1]}:app:app:${postgres_password//:/\\:}" '*:*:*:*:wrong' > "$passwords")
  PGPASSFILE=$passwords assert_runs -
  cp "$passwords" "$HOME/.pgpass"
  chmod 600 "$HOME/.pgpass"
  assert_runs -
  rm "$HOME/.pgpass"
  PGPASSFILE=$HOME/missing assert_refused 77 "password file $HOME/missing: No such file or directory"
  PGPASSFILE=$HOME assert_refused 77 "password file $HOME: it is a directory, not a file"
  PGPASSFILE=/dev/null assert_refused 77 'use --password-file, DLOCK_PASSWORD or ~/.pgpass'
}

@test "a wrong password is refused, and no output has it" {
  over_tcp
  secret='very-secret word'

  for given in DLOCK_PASSWORD PGPASSWORD; do
    run env "$given=$secret" dlock run -v job -- echo started
    assert_status 77
    refute_output_contains very-secret
  done
  DLOCK_STORE=${DLOCK_STORE/app@/app:very-secret%20word@}
  for verb in 'run -v job -- echo started' doctor config status list 'doctor --json' 'config --json'; do
    run dlock $verb
    refute_output_contains very-secret
  done
  run grep very-secret "$postgres_root/1.log"
  assert_status 1
}

@test "the right password is in no output, and in no argument of a process" {
  over_tcp
  DLOCK_STORE=${DLOCK_STORE/app@/app:only%20(us)%20%25\$%3A%40%2F@}
  run dlock -v run -v job -- sh -c 'cat /proc/$PPID/cmdline /proc/"$(cut -d " " -f 4 /proc/$PPID/stat)"/cmdline | tr "\0" " "'
  assert_status 0
  refute_output_contains 'only (us)'
  for verb in doctor config 'config --json' status list; do
    run dlock $verb
    refute_output_contains 'only (us)'
    refute_output_contains 'only%20(us)'
  done
}

@test "a password goes in the clear only over verified TLS or a unix socket" {
  serve_tls server
  postgres_admits 1 'host all all 127.0.0.1/32 password' 'local all all password'
  export PGPASSWORD=$postgres_password

  over_tcp sslmode=disable
  assert_refused 77 'asks for the password itself'
  over_tcp sslmode=require
  assert_refused 77 ''
  over_tcp "sslmode=verify-full&sslrootcert=$certificates/ours.crt"
  assert_runs TLSv1.3
  DLOCK_STORE=$(postgres_url 1)
  assert_runs -
}

@test "a role that pg_hba.conf does not let in is refused, and a login that dlock cannot do is named" {
  postgres_admits 1 'host all stranger 127.0.0.1/32 trust'
  over_tcp
  assert_refused 77 'pg_hba'
  postgres_admits 1 'host all all 127.0.0.1/32 ident'
  assert_refused 77 ''
}

@test "a role that may not log in, or too often, is refused" {
  sql 'ALTER ROLE app CONNECTION LIMIT 0'
  assert_refused 69 ''
  sql 'ALTER ROLE app CONNECTION LIMIT -1 NOLOGIN'
  assert_refused 77 ''
}

# --- TLS ---

@test "TLS is used if the server has it, and by sslmode required or left out" {
  over_tcp_with_password
  assert_runs -
  over_tcp sslmode=require
  assert_refused 69 TLS
  serve_tls server
  (($(sql 'SHOW server_version_num') >= 170000)) || {
    over_tcp 'sslmode=require&sslnegotiation=direct'
    assert_refused 69 'sslnegotiation=direct needs PostgreSQL 17'
  }

  over_tcp
  assert_runs TLSv1.3
  over_tcp sslmode=disable
  assert_runs -
  postgres_admits 1 'hostssl all all 127.0.0.1/32 scram-sha-256'
  assert_refused 77 ''
  over_tcp sslmode=prefer
  assert_runs TLSv1.3
}

@test "with require a server is believed if it proves to know the password, or by its certificate" {
  serve_tls unknown
  over_tcp_with_password sslmode=require
  assert_runs TLSv1.3

  # Nothing proves that it is the server.
  postgres_admits 1 'hostssl all all 127.0.0.1/32 trust'
  assert_refused 77 ''
  sql "SET password_encryption = md5; ALTER ROLE app PASSWORD '$postgres_password'"
  postgres_admits 1 'hostssl all all 127.0.0.1/32 md5'
  assert_refused 77 ''
  serve_tls server
  over_tcp "sslmode=require&sslrootcert=$certificates/ours.crt"
  assert_runs TLSv1.3
  # By the authorities of the system, which are only loaded if something depends on them.
  over_tcp sslmode=require
  SSL_CERT_FILE=$certificates/ours.crt assert_runs TLSv1.3
  SSL_CERT_FILE=$certificates/theirs.crt assert_refused 77 'not trusted'
  DLOCK_STORE=${DLOCK_STORE/127.0.0.1/localhost}
  SSL_CERT_FILE=$certificates/ours.crt assert_runs TLSv1.3
  serve_tls elsewhere
  SSL_CERT_FILE=$certificates/ours.crt assert_refused 77 'not trusted'
}

@test "with channel_binding=require there is no login without TLS" {
  over_tcp_with_password channel_binding=require
  assert_refused 77 ''
  serve_tls unknown

  over_tcp channel_binding=require
  assert_runs TLSv1.3
  over_tcp 'channel_binding=disable&sslmode=require'
  assert_refused 77 ''
}

@test "a certificate is verified with the name of the host" {
  serve_tls server
  over_tcp_with_password "sslmode=verify-full&sslrootcert=$certificates/ours.crt"
  assert_runs TLSv1.3
  over_tcp "sslmode=verify-full&sslrootcert=$certificates/theirs.crt"
  assert_refused 77 'certificate'
  DLOCK_TLS_CA=$certificates/ours.crt
  export DLOCK_TLS_CA
  over_tcp sslmode=verify-full
  assert_runs TLSv1.3

  serve_tls elsewhere
  for mode in verify-ca verify-full; do
    over_tcp "sslmode=$mode"
    assert_refused 77 'certificate'
  done
  DLOCK_TLS_NAME=elsewhere.example assert_runs TLSv1.3
}

@test "a client logs in with its certificate" {
  serve_tls server
  postgres_admits 1 'hostssl all all 127.0.0.1/32 cert'
  over_tcp "sslmode=verify-full&sslrootcert=$certificates/ours.crt&sslcert=$certificates/app.crt&sslkey=$certificates/app.key"

  assert_runs TLSv1.3
  over_tcp "sslmode=verify-full&sslrootcert=$certificates/ours.crt"
  assert_refused 77 ''
  over_tcp "sslmode=verify-full&sslrootcert=$certificates/ours.crt&sslcert=$certificates/stranger.crt&sslkey=$certificates/stranger.key"
  assert_refused 77 ''
  # The server has closed the connection before the next bytes are sent.
  run strace -qq -o "$BATS_TEST_TMPDIR/trace" -e trace=sendto -e inject=sendto:delay_enter=300000 dlock run --ttl 30s job -- echo started
  assert_status 77
  assert_output_contains 'does not accept our certificate'
  export DLOCK_TLS_CA=$certificates/ours.crt DLOCK_TLS_CERT=$certificates/app.crt DLOCK_TLS_KEY=$certificates/app.key
  over_tcp sslmode=verify-full
  assert_runs TLSv1.3

  # A key that is encrypted, wherever it is named.
  key=$BATS_TEST_TMPDIR/app.key
  encrypted "$DLOCK_TLS_KEY" "$BATS_TEST_TMPDIR/phrase" "$key"
  export DLOCK_TLS_KEY=$key DLOCK_TLS_KEY_PASSWORD_FILE=$BATS_TEST_TMPDIR/phrase
  assert_runs TLSv1.3
  unset DLOCK_TLS_CERT DLOCK_TLS_KEY
  over_tcp "sslmode=verify-full&sslcert=$certificates/app.crt&sslkey=$key"
  assert_runs TLSv1.3
  DLOCK_TLS_KEY_PASSWORD_FILE=$BATS_TEST_TMPDIR/password assert_refused 78 'is not that of the key'
}

@test "bytes that come before the handshake are refused, and so is a server that falls back" {
  export PGPASSWORD=$postgres_password
  for answer in 'SS' 'S\0\0\0' 'SR\0\0\0{x}x8' 'X' 'E\0\0\0\0' 'SHTTP/1.1 400'; do
    rm -f "$BATS_TEST_TMPDIR/port"
    "$DLOCK_SOURCE/tests/faults/fake_server" "$BATS_TEST_TMPDIR/port" "$answer" 3>&- &
    eventually test -s "$BATS_TEST_TMPDIR/port"
    for mode in prefer require; do
      DLOCK_STORE="postgres://app@127.0.0.1:$(< "$BATS_TEST_TMPDIR/port")/app?sslmode=$mode"
      run timeout 60 dlock --store-timeout 300ms run job -- echo started
      [[ $status == @(69|77) ]]
      assert_one_line
    done
  done
}

# --- Variables and parameters of libpq ---

@test "sslmode=no-verify of other programs is told what to write, as a parameter and as a variable" {
  over_tcp_with_password sslmode=no-verify
  run dlock run job -- echo started
  assert_message 78 'write sslmode=require and add --tls-insecure'
  over_tcp
  PGSSLMODE=no-verify run dlock run job -- echo started
  assert_status 78
  assert_output_contains 'PGSSLMODE: sslmode must be one of'
  assert_output_contains '--tls-insecure'
}

@test "a certificate that is not trusted: the message and doctor name --tls-ca" {
  serve_tls unknown
  over_tcp_with_password 'sslmode=require&channel_binding=disable'
  run dlock run job -- echo started
  assert_message 77 'name the CA of the server with --tls-ca FILE'
  run dlock doctor
  assert_output_contains 'name the CA of the server with --tls-ca FILE'
  run dlock run --tls-ca "$certificates/theirs.crt" job -- echo started
  assert_equal "$status $output" '0 started'
}
