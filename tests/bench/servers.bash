# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/bench/run reads all these files
# The bench's own servers: Redis, etcd, and groups of Redis servers.

start_server() {
  redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --dir "$work" > /dev/null &
  server_pid=$!
  eventually ask_server ping
}

stop_server() {
  ask_server shutdown nosave || true
  wait "$server_pid" || true
}

start_etcd() {
  local ports
  ports=$(perl -MIO::Socket::INET -e '@s = map { IO::Socket::INET->new(Listen => 1,
    LocalAddr => "127.0.0.1") } 1, 2; print join " ", map { $_->sockport } @s')
  export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=http://127.0.0.1:${ports% *}
  etcd_store=etcd://${ETCDCTL_ENDPOINTS#http://}
  etcd --data-dir "$work/etcd" --listen-client-urls "$ETCDCTL_ENDPOINTS" \
    --advertise-client-urls "$ETCDCTL_ENDPOINTS" \
    --listen-peer-urls "http://127.0.0.1:${ports#* }" > "$work/etcd.log" 2>&1 &
  etcd_pid=$!
  eventually etcdctl endpoint health
}

stop_etcd() {
  kill "$etcd_pid"
  wait "$etcd_pid" || true
}

ask_server() { redis-cli -s "$work/redis.sock" "$@"; }

# Prints how many commands clients have sent, except those of redis-cli.
commands_sent() {
  ask_server info commandstats |
    awk -F'[=,:]' '/^cmdstat_(evalsha|eval|blpop|client|auth|select)/ { n += $3 } END { print n + 0 }'
}

are_listening() { [[ $(ask_server info clients | tr -d '\r' | sed -n 's/^blocked_clients://p') == "$1" ]]; }

# Prints free ports of 127.0.0.1. For each, PORT + 10000 is free as well, for the cluster bus.
free_ports() {  # <number>
  perl -MIO::Socket::INET -e '
    my ($wanted, @kept, @ports) = shift;
    while (@ports < $wanted) {
      my $port = 10000 + int rand 10000;
      my @pair = map { IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:$_") } $port, $port + 10000;
      next if @pair != 2 || grep { !defined } @pair;
      push @kept, @pair;
      push @ports, $port;
    }
    print "@ports\n"' "$1"
}

ask_port() { redis-cli -p "$@"; }  # <port> <command>...

start_at() {  # <port> <option>...
  local dir=$work/at.$1
  mkdir -p "$dir"
  printf '%s\n' "port $1" 'bind 127.0.0.1' "dir $dir" > "$dir/conf"
  if [[ ${2:-} == --sentinel ]]; then
    printf '%s\n' "sentinel monitor main 127.0.0.1 $3 2" >> "$dir/conf"
    redis-server "$dir/conf" --sentinel > /dev/null &
  else
    redis-server "$dir/conf" --save '' "${@:2}" > /dev/null &
  fi
  fleet+=($!)
  eventually ask_port "$1" PING
}

stop_fleet() {
  kill -KILL "${fleet[@]}"
  wait "${fleet[@]}" 2> /dev/null || true
  fleet=()
}

has_replicas() { [[ $(ask_port "$1" INFO replication | grep -c state=online) == "$2" ]]; }
knows_replicas() { [[ $(ask_port "$1" SENTINEL REPLICAS main | grep -c '^name$') == "$2" ]]; }
serves_all_slots() { ask_port "$1" CLUSTER INFO | grep -q cluster_state:ok; }
