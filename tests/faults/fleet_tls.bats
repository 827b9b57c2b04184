#!/usr/bin/env bats
# Sentinels, which announce servers by their addresses, and quorums over TLS.
# shellcheck disable=SC2034  # the helpers use what is set here, and set ports

setup_file() {
  load ../bats/support
  load ../bats/certificates
  cd "$BATS_FILE_TMPDIR" || return
  authority ours
  authority theirs
  signed by_address ours 'IP:127.0.0.1'
  signed by_name ours 'DNS:redis.example'
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
}

# Starts servers that show this certificate, and sentinels, and makes them the store.
use_tls_fleet() {  # <certificate>
  certificate=$BATS_FILE_TMPDIR/$1
  sentinel_certificate=$BATS_FILE_TMPDIR/by_address
  start_fleet
  export DLOCK_STORE=rediss+sentinel:${DLOCK_STORE#*:}
}

@test "a lock outlives a failover over TLS" {
  over_tls=(1 2 3 4 5 6)
  use_tls_fleet by_address
  # An election without a winner is repeated half a minute later.
  hold job --ttl 90s --replicas all
  crash 1
  eventually has_failed_over
  eventually was_renewed_there

  run dlock run --ttl 90s job -- true

  assert_status 75
  let_go
  assert_exits 0 "$holder"
}

# Whether the lease lasts longer than at the last look.
was_renewed_there() {
  local before=${left:-90000}
  left=$(member "$(primary_by 4)" PTTL 'dlock:{job}')
  ((left > before))
}

@test "servers that are announced by address have to show the name of --tls-name" {
  over_tls=(1 2 3 4 5 6)
  use_tls_fleet by_name

  run dlock run job -- true
  assert_status 77

  run dlock run --tls-name redis.example job -- echo ran
  assert_equal "$status $output" '0 ran'
  run dlock run --tls-name other.example job -- true
  assert_status 77
}

@test "--sentinel-tls false is for sentinels without TLS" {
  over_tls=(1 2 3)
  use_tls_fleet by_address

  run dlock run job -- true
  assert_status 69

  run dlock run --sentinel-tls false job -- echo ran
  assert_equal "$status $output" '0 ran'
}

@test "a quorum of servers over TLS has the lock, and is refused with 77 if their certificate is not trusted" {
  over_tls=(1 2 3)
  certificate=$BATS_FILE_TMPDIR/by_address
  start_quorum 3
  DLOCK_STORE=rediss${DLOCK_STORE#redis}

  # Not with the lock on a majority only, as may happen on a busy machine.
  run dlock run -w 20s --min-strength 1 --report "$BATS_TEST_TMPDIR/report" job -- echo ran
  assert_equal "$status $output" '0 ran'
  assert_equal "$(jq .strength "$BATS_TEST_TMPDIR/report")" 1

  DLOCK_TLS_CA=$BATS_FILE_TMPDIR/theirs.crt run dlock run job -- echo ran
  assert_status 77
  assert_output_contains 'certificate not trusted'
}
