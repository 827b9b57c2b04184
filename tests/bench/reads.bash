# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/bench/run reads all these files
# Verbs that run no command, and the cost of a watcher for runs: parts read, cache and watch of tests/bench/run.

# These verbs run no command; the floor runs /bin/true.
read_rows() {  # <where>
  "$dlock" run read -- /bin/true
  "$work/measure" time "$runs" "$dlock" status read ::: "$dlock" limit read 1000/1s ::: \
    "$work/floor" - /bin/true > "$work/samples"
  add_ratio "status$1; the floor in C, spawn only" ' ms' 1000 < <(columns 1 7)
  add_ratio "limit$1; the floor in C, spawn only" ' ms' 1000 < <(columns 4 7)
}

bench_read() {
  say "read: $runs rounds"
  read_rows ''
  [[ -n $server ]] || return 0
  start_server
  DLOCK_STORE=$redis_store
  read_rows ' on Redis'
  DLOCK_STORE=$local_store
  stop_server
}

bench_watch() {
  say "watch: $runs rounds"
  compare_watched 'run /bin/true, watched; not watched' "$local_store.unwatched"
}

# Watches one of two namespaces, and compares runs in the two.
compare_watched() {  # <what> [<store of the namespace that is not watched>]
  "$dlock" watch -v --namespace watched > "$work/events" 2> "$work/said" &
  local watcher=$!
  eventually grep -q watching "$work/said"
  "$work/measure" time "$runs" "$dlock" run --namespace watched x -- /bin/true ::: \
    "$dlock" --store "${2:-$DLOCK_STORE}" run --namespace other x -- /bin/true > "$work/samples"
  kill "$watcher"
  wait "$watcher" || true
  add_ratio "$1" ' ms' 1000 < <(columns 1 4)
}

# A hit reads one record, as status does.
cache_row() {  # <where>
  "$dlock" cache --ttl 1h hit -- echo value > /dev/null
  "$work/measure" time "$runs" "$dlock" cache hit -- /bin/false ::: \
    "$dlock" status cache:hit > "$work/samples"
  add_ratio "cache hit$1; status" ' ms' 1000 < <(columns 1 4)
}

bench_cache() {
  say "cache: $runs rounds"
  cache_row ''
  [[ -n $server ]] || return 0
  start_server
  DLOCK_STORE=$redis_store
  cache_row ' on Redis'
  stop_server
  DLOCK_STORE=$local_store
}
