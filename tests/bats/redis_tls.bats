#!/usr/bin/env bats
# A Redis server over TLS: who is believed to be it, and whom it believes.
# shellcheck disable=SC2154  # the helpers set redis_port, redis_root and redis_password

# Certificates are made once: an authority, another one, and what they have signed.
setup_file() {
  load support
  load certificates
  cd "$BATS_FILE_TMPDIR" || return
  authority ours
  authority theirs
  signed server ours 'DNS:localhost,IP:127.0.0.1'
  signed elsewhere ours 'DNS:elsewhere.example'
  signed unknown theirs 'DNS:localhost,IP:127.0.0.1'
  signed client ours 'DNS:client.example'
  signed over ours 'DNS:localhost,IP:127.0.0.1' -startdate 20200101000000Z -enddate 20200201000000Z
}

setup() {
  load support
  load ../faults/locks
  load ../faults/redis
  choose_redis_port
  unset SSL_CERT_FILE SSL_CERT_DIR
}

teardown() {
  stop_redis
  kill_leftovers
}

# Starts a server that shows this certificate, and makes it the store.
use_tls_server() {  # <certificate> [<option of the server>...]
  local certificates=$BATS_FILE_TMPDIR
  use_redis_store --port 0 --tls-port "$redis_port" --tls-cert-file "$certificates/$1.crt" \
    --tls-key-file "$certificates/$1.key" --tls-ca-cert-file "$certificates/ours.crt" \
    --tls-auth-clients no "${@:2}"
  export DLOCK_STORE=rediss://127.0.0.1:$redis_port
  export DLOCK_TLS_CA=$certificates/ours.crt
  logins=$(calls_of auth)
}

# Asserts that dlock did not believe the server, said why, and told it nothing.
assert_not_believed() {  # <why>
  assert_status 77
  assert_one_line
  assert_output_contains "$1"
  assert_nobody_logged_in
}

# Looking for that logs in once, too.
assert_nobody_logged_in() { assert_equal "$(calls_of auth)" "$((logins + 1))"; }

@test "a run holds its lock on a server over TLS" {
  use_tls_server server

  run dlock run job -- sh -c "dlock status --json job | jq -r .state"

  assert_equal "$status $output" '0 held'
}

@test "the server may be known by its name" {
  use_tls_server server

  run dlock --store "rediss://localhost:$redis_port" run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "the server may be known by a name that is set" {
  use_tls_server elsewhere
  run dlock --tls-name elsewhere.example run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "a server that does not have the name that is set is not believed" {
  use_tls_server server

  DLOCK_TLS_NAME=db.example.org run dlock run job -- echo started

  assert_not_believed 'certificate not trusted'
}

@test "a server whose certificate another authority has signed is not believed" {
  use_tls_server unknown

  run dlock run job -- echo started

  assert_not_believed 'certificate not trusted'
}

@test "a server that the authorities of the system do not know is not believed" {
  use_tls_server server
  unset DLOCK_TLS_CA

  run dlock run job -- echo started

  assert_not_believed 'certificate not trusted'
}

# As on distributions that have their certificates where OpenSSL does not look for them.
use_foreign_certificates() {  # <file below /etc/ssl>
  use_private_mounts
  inside mount -t tmpfs none /usr/lib/ssl
  inside mount -t tmpfs none /etc/ssl
  inside mkdir -p "$(dirname "/etc/ssl/$1")"
  inside cp "$BATS_FILE_TMPDIR/ours.crt" "/etc/ssl/$1"
  unset DLOCK_TLS_CA
}

@test "the authorities of the system are found where other distributions have them" {
  use_tls_server server
  for file in certs/ca-certificates.crt ca-bundle.pem cert.pem; do
    use_foreign_certificates "$file"

    run inside dlock run job -- echo started

    assert_equal "$file $status $output" "$file 0 started"
  done
}

@test "who names the authorities with SSL_CERT_FILE gets these" {
  use_tls_server server
  unset DLOCK_TLS_CA

  SSL_CERT_FILE=$BATS_FILE_TMPDIR/ours.crt run dlock run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "an SSL_CERT_FILE that is empty counts as not set" {
  use_tls_server server
  use_foreign_certificates ca-bundle.pem

  SSL_CERT_FILE='' run inside dlock run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "who names others with SSL_CERT_FILE does not get the system's" {
  use_tls_server server
  use_foreign_certificates ca-bundle.pem

  SSL_CERT_FILE=$BATS_FILE_TMPDIR/theirs.crt run inside dlock run job -- echo started

  assert_not_believed 'certificate not trusted'
}

@test "a server with a certificate for another name is not believed" {
  use_tls_server elsewhere

  run dlock run job -- echo started

  assert_not_believed 127.0.0.1
}

@test "a server whose certificate has expired is not believed" {
  use_tls_server over

  run dlock run job -- echo started

  assert_not_believed expired
}

@test "a server that is its own authority is not believed" {
  use_tls_server theirs

  run dlock run job -- echo started

  assert_not_believed 'certificate not trusted'
}

@test "with --tls-insecure anybody is believed, and that is said each time" {
  use_tls_server unknown

  run dlock --tls-insecure run job -- echo started

  assert_status 0
  assert_output_contains started
  assert_output_contains 'warning'
}

@test "a server that wants to know its clients is shown a certificate" {
  use_tls_server server --tls-auth-clients yes

  run dlock --tls-cert "$BATS_FILE_TMPDIR/client.crt" --tls-key "$BATS_FILE_TMPDIR/client.key" \
    run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "a server that wants to know its clients lets nobody else in" {
  use_tls_server server --tls-auth-clients yes

  run dlock run job -- echo started

  [[ $status == @(69|77) ]]
  assert_one_line
  refute_output_contains started
}

@test "a server that does not speak TLS is told nothing" {
  use_tls_server server
  stop_redis
  start_redis --port "$redis_port"
  logins=$(calls_of auth)

  run timeout 10 dlock run job -- echo started

  assert_status 69
  assert_one_line
  assert_output_contains 'in the TLS handshake; does it use TLS?'
  assert_nobody_logged_in
}

@test "a server that speaks TLS only does not hang a client that does not" {
  use_tls_server server

  run timeout 10 dlock --store "redis://127.0.0.1:$redis_port" run job -- echo started

  assert_status 69
  assert_one_line
  assert_output_contains '; does it require TLS (rediss://)?'
}

@test "TLS before version 1.2 is not spoken" {
  use_private_store
  cd "$BATS_FILE_TMPDIR"
  openssl s_server -quiet -accept "127.0.0.1:$redis_port" -cert server.crt -key server.key \
    -tls1_1 -cipher DEFAULT@SECLEVEL=0 > "$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
  eventually is_listening

  run timeout 10 dlock --store "rediss://127.0.0.1:$redis_port" --tls-ca ours.crt \
    run job -- echo started

  [[ $status == @(69|77) ]]
  assert_one_line
  eventually grep -qi 'unsupported protocol\|version' "$BATS_TEST_TMPDIR/log"
}

is_listening() { grep -q ":$(printf %04X "$redis_port") 00000000:0000 0A" /proc/net/tcp; }
