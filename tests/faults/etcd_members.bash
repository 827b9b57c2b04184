# shellcheck shell=bash
# Helpers for tests in which members of an etcd cluster fail. They need
# support.bash and etcd.bash.
# shellcheck disable=SC2034,SC2154  # some of what is set here is for the tests, and the reverse

# Prints the number of the leader, which is none of these.
new_leader() {  # <number>...
  local leader but
  leader=$(etcd_leader)
  [[ -n $leader ]] || return 1
  for but; do [[ $leader != "$but" ]] || return 1; done
}

# Prints the URL with its members in another order: dlock asks the first one first.
store_from() {  # <number>...
  local i list=
  for i; do list+=${list:+,}127.0.0.1:${etcd_client_port[i]}; done
  echo "etcd://$list"
}

# Prints the remaining time of the lease of `job` in the cluster, in seconds.
left_by() {  # <number of the member that is asked>
  local lease
  lease=$(leases_by "$1" | head -n 1)
  etcdctl_at "$1" lease timetolive "$(printf %x "$lease")" -w json | jq -r .ttl
}

# Whether the member says that at least this much of the lease is left.
was_renewed() { (($(left_by "$1") >= $2)); }  # <number> <seconds that are left at least>

# A private network for member 1 and its client. When it is isolated, nothing goes in or out.
use_island() {
  needs_root
  command -v ip > /dev/null || skip 'no ip(8)'
  unshare --net sleep 600 3>&- &
  island=$!
  eventually other_network "$island"
  hosts=(0 198.18.0.1 198.18.0.2 198.18.0.2)
  ip link add dlock-out type veth peer name dlock-in netns "$island"
  ip address add "${hosts[2]}/30" dev dlock-out
  ip link set dlock-out up
  on_island ip address add "${hosts[1]}/30" dev dlock-in
  on_island ip link set dlock-in up
  on_island ip link set lo up
}

other_network() { ! [[ /proc/$1/ns/net -ef /proc/self/ns/net ]]; }
on_island() { nsenter --target "$island" --net -- "$@"; }
cut_off_island() { ip link set dlock-out down; }

# For `clean_up`: removes it, and with it the outer end of its link.
leave_island() {
  [[ -z ${island:-} ]] || ip link delete dlock-out 2> /dev/null || true
}

# After use_island: starts member 1 there and the others here.
use_etcd_around_island() {
  use_private_store || return
  etcd_data=$(etcd_directory) || return
  etcd_pids=()
  etcd_cluster=
  local i
  for i in 1 2 3; do
    etcd_cluster+=${etcd_cluster:+,}m$i=http://${hosts[i]}:$((12000 + i))
  done
  for i in 1 2 3; do
    local place=()
    ((i > 1)) || place=(on_island)
    "${place[@]}" env -u DLOCK_TEST_ID etcd --name "m$i" --data-dir "$etcd_data/$i" \
      --listen-client-urls "$(client_of "$i")" --advertise-client-urls "$(client_of "$i")" \
      --listen-peer-urls "http://${hosts[i]}:$((12000 + i))" \
      --initial-advertise-peer-urls "http://${hosts[i]}:$((12000 + i))" \
      --initial-cluster "$etcd_cluster" --heartbeat-interval 100 --election-timeout 1000 \
      --logger zap --log-level error >> "$BATS_TEST_TMPDIR/etcd-$i.log" 2>&1 3>&- &
    etcd_pids[i]=$!
  done
  export ETCDCTL_API=3
  eventually on_island etcdctl --endpoints "$(client_of 1)" \
    --command-timeout=1s get dlock || return
  export DLOCK_STORE=etcd://${hosts[2]}:13002,${hosts[3]}:13003
  eventually dlock list
}

client_of() { echo "http://${hosts[$1]}:$((13000 + $1))"; }  # <number>
