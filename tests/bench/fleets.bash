# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/bench/run reads all these files
# dlock on several Redis servers: parts quorum and failover of tests/bench/run.

# Runs on quorums of three and five servers, compared with runs on one server.
bench_quorum() {
  local ports port list='' one fleet=()
  [[ -n $server ]] || return 0
  read -ra ports <<< "$(free_ports 6)"
  for port in "${ports[@]}"; do start_at "$port"; done
  for port in "${ports[@]:0:5}"; do list+=${list:+,}127.0.0.1:$port; done
  one=redis://127.0.0.1:${ports[5]}
  say "quorum: $runs rounds"
  "$work/measure" time "$runs" \
    "$dlock" run --store "redis+quorum://${list%,*,*}" --max-ttl 0 x -- /bin/true ::: \
    "$dlock" run --store "redis+quorum://$list" --max-ttl 0 x -- /bin/true ::: \
    "$dlock" run --store "$one" x -- /bin/true > "$work/samples"
  add_ratio 'run with a quorum of 3; on one server' ' ms' 1000 < <(columns 1 7)
  add_ratio 'run with a quorum of 5; on one server' ' ms' 1000 < <(columns 4 7)
  compare_far_away "${ports[@]:0:3}" "${ports[5]}"
  stop_fleet
}

# The same for servers that are 20 ms away, there and back.
compare_far_away() {  # <port of a member>... <port of the one server>
  local port relay relayed list=''
  coproc { exec "$here/relay" 20 "$@"; }
  relay=$COPROC_PID
  read -ra relayed <&"${COPROC[0]}"
  for port in "${relayed[@]:0:$# - 1}"; do list+=${list:+,}127.0.0.1:$port; done
  "$work/measure" time "$runs" \
    "$dlock" run --store "redis+quorum://$list" --max-ttl 0 x -- /bin/true ::: \
    "$dlock" run --store "redis://127.0.0.1:${relayed[-1]}" x -- /bin/true > "$work/samples"
  add_ratio 'run with a quorum of 3, 20 ms away; on one server' ' ms' 1000 < <(columns 1 4)
  kill "$relay"
  wait "$relay" || true
}

# Compares runs on a cluster, each of which writes a hint for the next one, with runs on one
# server.
compare_with_hints() {  # <URL> <URL of one server>
  rm -rf "$work/runtime"
  mkdir -m 700 "$work/runtime"
  XDG_RUNTIME_DIR=$work/runtime "$work/measure" time "$runs" "$dlock" run --store "$1" x -- /bin/true ::: \
    "$dlock" run --store "$2" x -- /bin/true > "$work/samples"
  add_ratio 'run in a cluster with a hint; on one server' ' ms' 1000 < <(columns 1 4)
}

bench_failover() {
  local ports port sentinels cluster fleet=() one
  [[ -n $server ]] || return 0
  read -ra ports <<< "$(free_ports 6)"
  start_at "${ports[0]}" --repl-diskless-sync-delay 0
  for port in "${ports[@]:1:2}"; do start_at "$port" --replicaof "127.0.0.1 ${ports[0]}"; done
  eventually has_replicas "${ports[0]}" 2
  for port in "${ports[@]:3:3}"; do start_at "$port" --sentinel "${ports[0]}"; done
  for port in "${ports[@]:3:3}"; do eventually knows_replicas "$port" 2; done
  sentinels=redis+sentinel://127.0.0.1:${ports[3]},127.0.0.1:${ports[4]},127.0.0.1:${ports[5]}/main
  one=redis://127.0.0.1:${ports[0]}
  say "failover, sentinels: $runs rounds"
  "$work/measure" time "$runs" "$dlock" run --store "$sentinels" x -- /bin/true ::: \
    "$dlock" run --store "$sentinels" --replicas all x -- /bin/true ::: \
    "$dlock" run --store "$one" x -- /bin/true > "$work/samples"
  add_ratio 'run with sentinels; on one server' ' ms' 1000 < <(columns 1 7)
  add_ratio 'run with sentinels, --replicas all; 0' ' ms' 1000 < <(columns 4 1)
  stop_fleet

  read -ra ports <<< "$(free_ports 4)"
  for port in "${ports[@]:0:3}"; do start_at "$port" --cluster-enabled yes; done
  redis-cli --cluster-yes --cluster create "127.0.0.1:${ports[0]}" "127.0.0.1:${ports[1]}" \
    "127.0.0.1:${ports[2]}" > /dev/null
  start_at "${ports[3]}"
  for port in "${ports[@]:0:3}"; do eventually serves_all_slots "$port"; done
  cluster=redis+cluster://127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}
  say "failover, cluster: $runs rounds"
  "$work/measure" time "$runs" "$dlock" run --store "$cluster" x -- /bin/true ::: \
    "$dlock" run --store "redis://127.0.0.1:${ports[3]}" x -- /bin/true > "$work/samples"
  add_ratio 'run in a cluster; on one server' ' ms' 1000 < <(columns 1 4)
  compare_with_hints "$cluster" "redis://127.0.0.1:${ports[3]}"
  stop_fleet
}
