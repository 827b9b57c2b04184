# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/bench/run reads all these files
# dlock on etcd: part etcd of tests/bench/run.

# Prints how many messages clients have sent to etcd, by its own metrics.
messages_sent() {
  local address=${ETCDCTL_ENDPOINTS#http://}
  exec {metrics}<> "/dev/tcp/${address%:*}/${address#*:}"
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&"$metrics"
  awk '/^grpc_server_msg_received_total/ { n += $2 } END { print n + 0 }' <&"$metrics"
  exec {metrics}>&-
}

# Adds a row: how many messages a second idle waiters send, under dlock and under etcdctl.
idle_messages_row() {  # <waiters> <seconds>
  local tool i before sent waiters
  say "etcd, idle: $1 waiters, $2 s each"
  for tool in etcd etcdctl; do
    lock=handover waiters=()
    hold_for "$tool"
    for ((i = 1; i <= $1; i++)); do
      if [[ $tool == etcd ]]; then
        "$dlock" run -w forever "$lock" -- /bin/true &
      else
        "${under[@]}" /bin/true > /dev/null &
      fi
      waiters+=($!)
    done
    if [[ $tool == etcd ]]; then eventually dlock_waiters_are "$1"; else eventually etcdctl_waiters_are "$1"; fi
    before=$(messages_sent)
    sleep "$2"
    sent=$(($(messages_sent) - before))
    awk -v n="$sent" -v s="$2" 'BEGIN { printf "%.1f\n", n / s }' > "$work/$tool.rate"
    let_go "$holder"
    wait "${waiters[@]}"
  done
  add_row "messages a second of $1 idle waiters; etcdctl" "$(< "$work/etcd.rate")" \
    "$(< "$work/etcdctl.rate")"
}

bench_etcd() {
  local seconds=40
  [[ -n $etcdctl ]] || return 0
  ((runs >= 200)) || seconds=20
  start_etcd
  DLOCK_STORE=$etcd_store
  say "etcd: $runs rounds"
  "$work/measure" time "$runs" "$dlock" run -w forever x -- /bin/true ::: \
    "$dlock" run x -- /bin/true ::: \
    "$etcdctl" lock y /bin/true > "$work/samples" 2> /dev/null
  add_ratio 'run -w on etcd; etcdctl lock' ' ms' 1000 < <(columns 1 7)
  add_ratio 'run on etcd; etcdctl lock' ' ms' 1000 < <(columns 4 7)
  add_ratio 'run -w on etcd; etcdctl lock: resident memory' ' MiB' 1024 < <(columns 3 9)
  # etcd serves the watch of etcdctl, which begins in the past, only every 100 ms until it has
  # caught up; a hand-off in between would take that long.
  handover_row 'hand-off on etcd; etcdctl lock' etcd etcdctl "$(repeats 6 10)" 0.3
  idle_messages_row 100 "$seconds"
  stop_etcd
  DLOCK_STORE=$local_store
}
