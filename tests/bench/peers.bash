# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/bench/run reads all these files
# Compares runs of dlock with runs of its peers: parts run, peers and busy of tests/bench/run.

bench_run() {
  local commands=("$dlock" run x -- /bin/true ::: "$flock" "$file" /bin/true :::
    "$work/floor" "$file" /bin/true ::: "$work/floor" - /bin/true)
  [[ -z $setlock ]] || commands+=(::: "$setlock" "$file" /bin/true)
  say "run: $runs rounds"
  "$work/measure" time "$runs" "${commands[@]}" > "$work/samples"
  add_ratio 'run /bin/true; flock' ' ms' 1000 < <(columns 1 4)
  add_ratio 'run /bin/true; flock: processor time' ' ms' 1000 < <(columns 2 5)
  add_ratio 'run /bin/true; flock: resident memory' ' MiB' 1024 < <(columns 3 6)
  add_ratio 'run /bin/true; the floor in C' ' ms' 1000 < <(columns 1 7)
  add_ratio 'run /bin/true; the floor in C, spawn only' ' ms' 1000 < <(columns 1 10)
  [[ -z $setlock ]] ||
    add_ratio 'run /bin/true; setlock' ' ms' 1000 < <(columns 1 13)
  "$work/measure" time "$runs" "$dlock" --version ::: /bin/true > "$work/samples"
  add_ratio 'dlock --version; /bin/true' ' ms' 1000 < <(columns 1 4)
}

# Sets `under` to the words before a command that run it under a peer's lock.
set_under() {  # <peer> <name of the lock>
  case $1 in
    flock) under=("$flock" "$file.$2") ;;
    setlock) under=("$setlock" "$file.$2") ;;
    lckdo) under=("$lckdo" -w "$file.$2") ;;
    sem) under=("$sem" --will-cite --id "$2" --fg -j1) ;;
    etcdctl) under=("$etcdctl" lock "$2") ;;
    redis-py) under=("$python" "$here/redis_py_lock" "$work/redis.sock" "$2") ;;
    redis-cli) under=("$here/redis_cli_lock" "$work/redis.sock" "$2") ;;
  esac
}

# These print the installed peers: those with locks on this machine, and on Redis.
peers_here() {
  printf '%s\n' ${lckdo:+lckdo} ${sem:+sem}
}
peers_on_redis() {
  printf '%s\n' ${redis_cli:+redis-cli} ${python:+redis-py}
}

# Compares runs on the current store with runs under each of these peers' locks.
compare_runs() {  # <where> <peer>...
  local peer under
  for peer in "${@:2}"; do
    set_under "$peer" x
    "$work/measure" time "$(repeats 15 8)" "$dlock" run -w forever x -- /bin/true ::: \
      "${under[@]}" /bin/true > "$work/samples" 2> /dev/null
    add_ratio "run$1; $peer" ' ms' 1000 < <(columns 1 4)
    add_ratio "run$1; $peer: processor time" ' ms' 1000 < <(columns 2 5)
    add_ratio "run$1; $peer: resident memory" ' MiB' 1024 < <(columns 3 6)
  done
}

# Compares a crowd on the current store with one under each of these peers' locks.
compare_crowds() {  # <where> <workers> <sections of the peer> <peer>...
  local peer under
  for peer in "${@:4}"; do
    set_under "$peer" crowd
    crowd_row "$2 workers$1; $peer" "$2" "$3" "${under[@]}"
  done
}

# Slow peers run fewer sections: the rates are compared.
bench_peers() {
  local here_are on_redis
  mapfile -t here_are < <(peers_here | grep .)
  mapfile -t on_redis < <(peers_on_redis | grep .)
  say "peers: ${here_are[*]} ${on_redis[*]} ${etcdctl:+etcdctl}"
  compare_runs '' "${here_are[@]}"
  if [[ -n $server ]] && ((${#on_redis[@]})); then
    start_server
    DLOCK_STORE=$redis_store
    compare_runs ' on Redis' "${on_redis[@]}"
    compare_crowds ' on Redis' 8 3 "${on_redis[@]}"
    stop_server
  fi
  if [[ -n $etcdctl ]]; then
    start_etcd
    DLOCK_STORE=$etcd_store
    compare_runs ' on etcd' etcdctl
    compare_crowds ' on etcd' 8 3 etcdctl
    stop_etcd
  fi
  DLOCK_STORE=$local_store
}

bench_busy() {
  say "busy: $runs rounds"
  local first second
  hold "$dlock" run busy --
  first=$holder
  hold "$flock" "$file.busy"
  second=$holder
  "$work/measure" time "$runs" "$dlock" run busy -- /bin/true ::: \
    "$flock" -n "$file.busy" /bin/true > "$work/samples" 2> /dev/null
  let_go "$first"
  let_go "$second"
  add_ratio 'busy, not waiting; flock -n' ' ms' 1000 < <(columns 1 4)
  add_ratio 'busy, not waiting; flock -n: processor time' ' ms' 1000 < <(columns 2 5)
}
