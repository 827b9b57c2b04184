#!/usr/bin/env bats
# `dlock doctor` on etcd: one test for each state that is bad for locks.
# shellcheck disable=SC2034  # helpers read etcd_options and set etcd_pids, ...

setup() {
  load support
  load etcd
  load ../faults/doctor
  etcd_options=()
  # Some versions have known faults, which are warnings.
  version=$(etcd --version | sed -n 's/^etcd Version: //p')
  good_status=0
  if is_within 3.4.0 3.4.41 || is_within 3.5.0 3.5.27 || is_within 3.6.0 3.6.8; then good_status=1; fi
}

# Whether the installed version is one of these.
is_within() {  # <first> <last>
  printf '%s\n' "$1" "$version" "$2" | sort -C -V
}

@test "a cluster without problems is reported as such" {
  use_etcd_store 3

  run dlock doctor

  assert_status "$good_status"
  for check in reachable leader login members quota alarms permissions leases failover round-trip; do
    assert_found ok "$check" ''
  done
  assert_found ok reachable '3 of 3'
  assert_found ok members '3, of which 1 may fail'
  assert_found ok leases 'the shortest lease is 2.0s'
  assert_found info clock 'not checked'
}

@test "doctor leaves no keys or leases in a cluster" {
  use_etcd_store
  dlock run job -- true
  before=$(etcdctl get --prefix '' -w json | jq -c .kvs; etcdctl lease list)

  run dlock doctor

  assert_status "$good_status"
  assert_equal "$(etcdctl get --prefix '' -w json | jq -c .kvs; etcdctl lease list)" "$before"
}

@test "an unavailable member is a warning, and an unavailable majority an error" {
  use_etcd_store 3
  crash_etcd 3
  assert_doctor_finds 1 warning reachable '2 of 3; cannot reach 127.0.0.1'

  crash_etcd 2
  eventually has_no_leader 1
  DLOCK_STORE_TIMEOUT=500ms assert_doctor_finds 2 error leader 'has no leader' 'restore members'
}

has_no_leader() { ! etcd_serves "$1"; }

@test "a cluster of two is a warning" {
  use_etcd_store 2

  assert_doctor_finds 1 warning members '2, of which 0 may fail' 'run three or five'
}

@test "members that the URL does not name are reported" {
  use_etcd_store 3

  run dlock --store "etcd://127.0.0.1:${etcd_client_port[1]}" doctor

  assert_status "$good_status"
  assert_found info members 'the URL names 1' 'name all of them'
}

@test "missing authentication is a warning, a login that works information, a refused one an error" {
  use_etcd_store
  # A login takes long where others need the processors.
  export DLOCK_STORE_TIMEOUT=10s DLOCK_USER=root DLOCK_PASSWORD=secret
  run dlock doctor
  assert_found warning login 'anyone can write to the cluster'

  etcdctl user add root:secret > /dev/null
  etcdctl user grant-role root root > /dev/null
  etcdctl auth enable > /dev/null
  run dlock doctor
  assert_status "$good_status"
  assert_found info login 'user root; each run logs in' 'where many runs start'
  DLOCK_PASSWORD=wrong assert_doctor_finds 2 error login 'login refused' 'check the user, the password'

  unset DLOCK_USER DLOCK_PASSWORD
  assert_doctor_finds 2 error login 'login required' 'check the user, the password'
}

@test "missing permissions are an error, and the advice names the command that grants them" {
  use_etcd_store
  export DLOCK_STORE_TIMEOUT=10s DLOCK_USER=jobs DLOCK_PASSWORD=word
  etcdctl user add root:secret > /dev/null
  etcdctl user grant-role root root > /dev/null
  etcdctl user add jobs:word > /dev/null
  etcdctl auth enable > /dev/null

  assert_doctor_finds 2 error permissions 'permission denied' 'etcdctl role grant-permission ROLE readwrite --prefix=true dlock/'

  export ETCDCTL_USER=root:secret
  etcdctl role add locks > /dev/null
  etcdctl role grant-permission locks readwrite --prefix=true dlock/ > /dev/null
  etcdctl user grant-role jobs locks > /dev/null
  run dlock doctor

  assert_status "$good_status"
  assert_found ok reachable '127.0.0.1'
  assert_found ok permissions 'can be read and written'
}
