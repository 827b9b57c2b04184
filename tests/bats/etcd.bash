# shellcheck shell=bash
# Helpers for the tests with etcd: one member, or a cluster of three, of a test's own. They
# go with support.bash.
# shellcheck disable=SC2034,SC2154  # some of what is set here is for the tests, and the reverse

# etcd writes every change through to its disk, so its files are in memory where there is
# a place for that. They are removed by stop_etcd.
etcd_directory() {
  local memory=/dev/shm
  [[ -d $memory && -w $memory ]] || memory=$BATS_TEST_TMPDIR
  mktemp -d "$memory/dlock-etcd.XXXXXX"
}

etcd_ports() {  # <number>
  perl -MIO::Socket::INET -e \
    'my @s = map { IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") } 1 .. shift;
     print join(" ", map { $_->sockport } @s), "\n"' "$1"
}

# For `setup`: starts a member, or three, and makes them the store. What is in `etcd_options`
# goes to each of them, and their URLs for clients begin with `etcd_scheme`.
use_etcd_store() {  # [<members>]
  use_private_store || return
  local count=${1:-1} i ports
  etcd_data=$(etcd_directory) || return
  read -ra ports <<< "$(etcd_ports $((2 * count)))"
  etcd_client_port=(0 "${ports[@]:0:count}")
  etcd_peer_port=(0 "${ports[@]:count}")
  etcd_pids=()
  etcd_members=$count
  etcd_cluster=
  local servers=
  for ((i = 1; i <= count; ++i)); do
    etcd_cluster+=${etcd_cluster:+,}m$i=http://127.0.0.1:${etcd_peer_port[i]}
    servers+=${servers:+,}127.0.0.1:${etcd_client_port[i]}
  done
  for ((i = 1; i <= count; ++i)); do launch_etcd "$i"; done
  export DLOCK_STORE=${etcd_scheme:-http}://$servers
  DLOCK_STORE=${DLOCK_STORE/#http/etcd}
  export ETCDCTL_API=3
  export ETCDCTL_ENDPOINTS=${etcd_scheme:-http}://${servers//,/,${etcd_scheme:-http}://}
  for ((i = 1; i <= count; ++i)); do EVENTUALLY_MS=20000 eventually etcd_serves "$i" || return; done
}

# Starts a member, or starts it again with what it knew. It need not serve yet.
launch_etcd() {  # <number>
  local client=${etcd_scheme:-http}://127.0.0.1:${etcd_client_port[$1]}
  # A short election, for a test that waits for one; the mark is for what dlock starts.
  env -u DLOCK_TEST_ID etcd --name "m$1" --data-dir "$etcd_data/$1" \
    --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "http://127.0.0.1:${etcd_peer_port[$1]}" \
    --initial-advertise-peer-urls "http://127.0.0.1:${etcd_peer_port[$1]}" \
    --initial-cluster "$etcd_cluster" --initial-cluster-token "$etcd_data" \
    --heartbeat-interval 100 --election-timeout 1000 --logger zap --log-level error \
    "${etcd_options[@]}" >> "$BATS_TEST_TMPDIR/etcd-$1.log" 2>&1 3>&- &
  etcd_pids[$1]=$!
}

# etcdctl, asking this member alone.
etcdctl_at() {  # <number> <argument>...
  ETCDCTL_ENDPOINTS=${etcd_scheme:-http}://127.0.0.1:${etcd_client_port[$1]} \
    timeout 10 etcdctl "${@:2}"
}

# Whether it is up and the cluster has a leader, with or without a login.
etcd_serves() {  # <number>
  local said
  said=$(etcdctl_at "$1" --dial-timeout=1s --command-timeout=1s ${etcd_login:+--user "$etcd_login"} \
    endpoint status -w json 2> /dev/null) && jq -e '.[0].Status.leader > 0' <<< "$said"
}

# Prints the number of the member that says that it leads.
etcd_leader() {
  local said i leader
  for ((i = 1; i <= etcd_members; ++i)); do
    said=$(etcdctl_at "$i" --dial-timeout=1s --command-timeout=1s endpoint status -w json 2> /dev/null) || continue
    leader=$(jq -r '.[0].Status | .header.member_id == .leader' <<< "$said")
    [[ $leader != true ]] || echo "$i"
  done
}

freeze_etcd() { for i; do kill -STOP "${etcd_pids[i]}"; done; }  # <number>...
go_on_etcd() { for i; do kill -CONT "${etcd_pids[i]}"; done; }   # <number>...
crash_etcd() {  # <number>...
  local i
  for i; do
    kill -KILL "${etcd_pids[i]}"
    wait "${etcd_pids[i]}" 2> /dev/null || true
  done
}

# For `teardown`, before kill_leftovers.
stop_etcd() {
  if [[ -n ${etcd_pids[*]:-} ]]; then
    end_processes "${etcd_pids[@]}"
    wait "${etcd_pids[@]}" 2> /dev/null || true
  fi
  [[ -z ${etcd_data:-} ]] || rm -rf --one-file-system "$etcd_data"
}
