#!/usr/bin/env bats
# etcd over TLS and with a login: which servers dlock trusts, and which clients etcd admits.
# shellcheck disable=SC2034  # for and from the helpers: etcd_options, etcd_pids, ...

setup_file() {
  load ../bats/support
  load certificates
  cd "$BATS_FILE_TMPDIR" || return
  authority ours
  authority theirs
  signed server ours 'DNS:localhost,IP:127.0.0.1'
  signed elsewhere ours 'DNS:elsewhere.example,IP:127.0.0.1'
  signed unknown theirs 'DNS:localhost,IP:127.0.0.1'
  signed client ours 'DNS:client.example'
  signed stranger theirs 'DNS:client.example'
}

setup() {
  load support
  load etcd
  load certificates
  certificates=$BATS_FILE_TMPDIR
  etcd_options=()
  unset SSL_CERT_FILE SSL_CERT_DIR
}

# Starts a member with this certificate.
use_tls_store() {  # <certificate> [<authority>]
  etcd_scheme=https
  etcd_options+=(--cert-file "$certificates/$1.crt" --key-file "$certificates/$1.key")
  export ETCDCTL_CACERT=$certificates/${2:-ours}.crt
  use_etcd_store || return
  export DLOCK_TLS_CA=$certificates/ours.crt
}

# Starts a member that admits only clients with a certificate of `ours`.
use_store_with_client_certificates() {
  etcd_options=(--client-cert-auth --trusted-ca-file "$certificates/ours.crt")
  export ETCDCTL_CERT=$certificates/client.crt ETCDCTL_KEY=$certificates/client.key
  use_tls_store server
}

# Enables logins, with the users `root`, and `jobs`: a password, and permission for one
# namespace.
enable_login() {
  etcdctl user add root:secret > /dev/null
  etcdctl user grant-role root root > /dev/null
  etcdctl role add locks > /dev/null
  etcdctl role grant-permission locks readwrite --prefix=true dlock/ > /dev/null
  etcdctl user add jobs:word > /dev/null
  etcdctl user grant-role jobs locks > /dev/null
  etcdctl auth enable > /dev/null
}

# --- TLS ---

# Sets $server to the address of a fake server.
serve() {  # <as fake_server has it>
  use_private_store
  "$DLOCK_SOURCE/tests/faults/fake_server" "$BATS_TEST_TMPDIR/port" "$1" 3>&- &
  eventually test -s "$BATS_TEST_TMPDIR/port"
  server=127.0.0.1:$(< "$BATS_TEST_TMPDIR/port")
}

@test "the error asks for TLS if a server resets the connection, and names the handshake" {
  serve reset

  run dlock --store "etcd://$server" --store-timeout 1s run job -- echo started
  assert_message 69 'connection reset by peer; does it require TLS (etcds://)?'
  run dlock --store "etcds://$server" --store-timeout 1s run job -- echo started

  assert_message 69 'during the TLS handshake: connection reset by peer'
}

@test "a client certificate logs in as the user that it names" {
  use_store_with_client_certificates
  enable_login

  run dlock --tls-cert "$certificates/client.crt" --tls-key "$certificates/client.key" run job -- echo started
  assert_status 77
  assert_output_contains 'permission denied'
  etcdctl --user root:secret user add client:unused > /dev/null
  etcdctl --user root:secret user grant-role client locks > /dev/null
  run dlock --tls-cert "$certificates/client.crt" --tls-key "$certificates/client.key" run job -- echo started

  assert_equal "$status $output" '0 started'
}

# --- Login ---

@test "a user with permission for one namespace can hold locks only there" {
  use_etcd_store
  enable_login
  export DLOCK_USER=jobs DLOCK_PASSWORD=word

  run dlock run job -- echo started
  assert_equal "$status $output" '0 started'
  run dlock --namespace other run job -- echo started

  assert_message 77 'permission denied'
}

@test "a wrong login, no login, and a user without a password are refused, and nothing runs" {
  use_etcd_store
  enable_login

  DLOCK_USER=jobs DLOCK_PASSWORD=wrong run dlock run job -- echo started
  assert_message 77 'login refused'
  refute_output_contains wrong
  run dlock run job -- echo started
  assert_message 77 'login required: use --user'
  run dlock --user jobs run job -- echo started

  assert_status 78
  assert_output_contains "no password for user 'jobs'"
}

@test "an expired login is renewed, and the run continues" {
  etcd_options=(--auth-token-ttl 1)
  use_etcd_store
  enable_login
  export DLOCK_USER=jobs DLOCK_PASSWORD=word
  # etcd checks tokens every second; a lease of 6 s is renewed every 2 s.
  run dlock run --ttl 6s --store-timeout 2s job -- sh -c 'sleep 5; echo done'

  assert_equal "$status $output" '0 done'
}

@test "of several members, the password command runs once, and has the whole store timeout" {
  use_etcd_store
  enable_login
  export DLOCK_USER=jobs DLOCK_STORE_TIMEOUT=9s
  export DLOCK_STORE=$DLOCK_STORE,127.0.0.1:1,127.0.0.1:2
  helper=$BATS_TEST_TMPDIR/print-password
  # More than a third of the time.
  printf '#!/bin/sh\necho called >> "%s"\nsleep 4\necho word\nexit "${FAILS:-0}"\n' "$helper.calls" > "$helper"
  chmod +x "$helper"

  run dlock run --password-command "$helper" job -- echo started
  assert_equal "$status $output" '0 started'
  assert_equal "$(wc -l < "$helper.calls")" 1
  FAILS=3 run dlock run --password-command "$helper" job -- echo started

  assert_message 69 'ended with exit code 3'
  assert_equal "$(wc -l < "$helper.calls")" 2
}
