# shellcheck shell=bash
# Helpers for the tests with etcd: a private member, or a private cluster of three. They need
# support.bash.
# shellcheck disable=SC2034,SC2154  # tests use variables that are set here, and the reverse

# etcd syncs every change to disk, so its files are in memory if possible. stop_etcd removes
# them.
etcd_directory() {
  local memory=/dev/shm
  [[ -d $memory && -w $memory ]] || memory=$BATS_TEST_TMPDIR
  mktemp -d "$memory/dlock-etcd.XXXXXX"
}

# For `setup`: starts one member or several, and makes them the store. Each is started with
# the options in `etcd_options`. Their client URLs begin with `etcd_scheme`.
use_etcd_store() {  # [<members>]
  use_private_store && start_etcd "$@"
}

start_etcd() {  # [<members>]
  local count=${1:-1} i ports
  etcd_data=$(etcd_directory) || return
  begin_to_use_ports
  read -ra ports <<< "$(free_ports $((2 * count)))"
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
  for i in "${ports[@]}"; do eventually accepts_connections "$i" || return; done
  ports_are_used
  export DLOCK_STORE=${etcd_scheme:-http}://$servers
  DLOCK_STORE=${DLOCK_STORE/#http/etcd}
  export ETCDCTL_API=3
  export ETCDCTL_ENDPOINTS=${etcd_scheme:-http}://${servers//,/,${etcd_scheme:-http}://}
  for ((i = 1; i <= count; ++i)); do eventually etcd_serves "$i" || return; done
}

# For `setup_file` and `teardown_file`: one member for all tests of a file.
share_etcd() {
  local BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR  # for its output
  start_etcd || return
  declare -p etcd_data etcd_client_port etcd_pids | sed 's/^declare /declare -g /' > "$BATS_FILE_TMPDIR/etcd"
}
end_shared_etcd() {
  find_shared_etcd
  end_processes "${etcd_pids[@]}"
  eventually has_ended "${etcd_pids[1]}"
  rm -rf --one-file-system "$etcd_data"
}
# shellcheck source=/dev/null
find_shared_etcd() { . "$BATS_FILE_TMPDIR/etcd"; }

# For `setup`: makes that member the store, with neither keys nor watchers. It has leases of earlier
# tests until they expire.
use_shared_etcd() {
  use_private_store && find_shared_etcd || return
  etcd_is_shared=1
  export DLOCK_STORE=etcd://127.0.0.1:${etcd_client_port[1]} ETCDCTL_API=3
  export ETCDCTL_ENDPOINTS=http://127.0.0.1:${etcd_client_port[1]}
  etcdctl del --prefix '' > /dev/null && eventually no_etcd_watchers
}
no_etcd_watchers() { (($(etcd_watchers) == 0)); }
etcd_watchers() {
  curl -s "${ETCDCTL_ENDPOINTS%%,*}/metrics" | awk '$1 == "etcd_debugging_mvcc_watcher_total" { print $2 }'
}

# Starts a member, or restarts it with its data. Returns before the member serves requests.
launch_etcd() {  # <number>
  local client=${etcd_scheme:-http}://127.0.0.1:${etcd_client_port[$1]}
  # Elections are short, because a test waits for one. The mark is removed because it is
  # meant for processes that dlock starts.
  env -u DLOCK_TEST_ID etcd --name "m$1" --data-dir "$etcd_data/$1" \
    --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "http://127.0.0.1:${etcd_peer_port[$1]}" \
    --initial-advertise-peer-urls "http://127.0.0.1:${etcd_peer_port[$1]}" \
    --initial-cluster "$etcd_cluster" --initial-cluster-token "$etcd_data" \
    --heartbeat-interval 100 --election-timeout 1000 --logger zap --log-level error \
    "${etcd_options[@]}" >> "$BATS_TEST_TMPDIR/etcd-$1.log" 2>&1 3>&- &
  etcd_pids[$1]=$!
}

# Runs etcdctl against this member only.
etcdctl_at() {  # <number> <argument>...
  ETCDCTL_ENDPOINTS=${etcd_scheme:-http}://127.0.0.1:${etcd_client_port[$1]} \
    timeout 10 etcdctl "${@:2}"
}

# Prints the leases of the holder and the waiters of `job`, in the order of their arrival.
leases_by() {  # <number of the member that is asked>
  etcdctl_at "$1" get --prefix --sort-by=CREATE dlock/job/ -w fields | sed -n 's/^"Lease" : //p'
}

# Revokes the lease of the holder of `job`.
revoke_lease() { etcdctl lease revoke "$(printf %x "$(leases_by 1 | head -n 1)")" > /dev/null; }

# True if this member replies and the cluster has a leader, with or without a login.
etcd_serves() {  # <number>
  local said
  said=$(etcdctl_at "$1" --dial-timeout=1s --command-timeout=1s ${etcd_login:+--user "$etcd_login"} \
    endpoint status -w json 2> /dev/null) && jq -e '.[0].Status.leader > 0' <<< "$said"
}

# Prints the number of the member that reports itself as the leader.
etcd_leader() {
  local said i leader
  for ((i = 1; i <= etcd_members; ++i)); do
    said=$(etcdctl_at "$i" --dial-timeout=1s --command-timeout=1s endpoint status -w json 2> /dev/null) || continue
    leader=$(jq -r '.[0].Status | .header.member_id == .leader' <<< "$said")
    [[ $leader != true ]] || echo "$i"
  done
}

freeze_etcd() { for i; do halt "${etcd_pids[i]}"; done; }        # <number>...
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
  if [[ -n ${etcd_is_shared:-} ]]; then
    go_on_etcd 1
    return
  fi
  if [[ -n ${etcd_pids[*]:-} ]]; then
    end_processes "${etcd_pids[@]}"
    wait "${etcd_pids[@]}" 2> /dev/null || true
  fi
  [[ -z ${etcd_data:-} ]] || rm -rf --one-file-system "$etcd_data"
}
