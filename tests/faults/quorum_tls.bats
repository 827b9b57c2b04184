#!/usr/bin/env bats
# A quorum of servers over TLS.
# shellcheck disable=SC2034,SC2154  # the helpers use what is set here, and set ports

setup_file() {
  load ../bats/support
  load ../bats/certificates
  cd "$BATS_FILE_TMPDIR" || return
  authority ours
  authority theirs
  signed server ours 'IP:127.0.0.1'
}

setup() {
  load ../bats/support
  load redis
  load partition
  load sentinel
  load quorum
  use_private_store
  unset SSL_CERT_FILE SSL_CERT_DIR
  export DLOCK_TLS_CA=$BATS_FILE_TMPDIR/ours.crt
  over_tls=(1 2 3)
  certificate=$BATS_FILE_TMPDIR/server
  start_quorum 3
  DLOCK_STORE=rediss${DLOCK_STORE#redis}
}

teardown() {
  stop_fleet
  kill_leftovers
}

@test "a command runs with the lock on servers over TLS" {
  # Not with the lock on a majority only, as may happen on a busy machine.
  run dlock run -w 20s --min-strength 1 --report "$BATS_TEST_TMPDIR/report" job -- echo ran

  assert_equal "$status $output" '0 ran'
  assert_equal "$(jq .strength "$BATS_TEST_TMPDIR/report")" 1
}

@test "servers with an untrusted certificate are refused with 77" {
  export DLOCK_TLS_CA=$BATS_FILE_TMPDIR/theirs.crt

  run dlock run job -- echo ran

  assert_status 77
  assert_output_contains 'certificate not trusted'
}
