# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/bench/run reads all these files
# dlock on a Redis server: part redis of tests/bench/run.

# Prints how many commands each of the waiters and the holder sends.
commands_for_each() {  # <number of waiters>
  local i before waiters=()
  lock=commands.$1
  hold_for redis
  before=$(commands_sent)
  for ((i = 1; i <= $1; i++)); do
    "$dlock" run -w forever "$lock" -- /bin/true &
    waiters+=($!)
  done
  # A waiter has joined the queue once it listens.
  eventually are_listening "$1"
  let_go "$holder"
  wait "${waiters[@]}"
  # The release is counted, so the holder is counted as well.
  awk -v n=$(($(commands_sent) - before)) -v waiters="$1" 'BEGIN { printf "%.1f\n", n / (waiters + 1) }'
}

bench_redis() {
  local count i waiters=() before sent guardian seconds=50
  [[ -n $server ]] || return 0
  start_server
  DLOCK_STORE=$redis_store

  say "redis: $runs rounds"
  "$work/measure" time "$runs" "$dlock" run x -- /bin/true ::: \
    "$flock" "$file" /bin/true > "$work/samples"
  add_ratio 'run on Redis, unix socket; flock' ' ms' 1000 < <(columns 1 4)
  add_ratio 'run on Redis, unix socket; flock: resident memory' ' MiB' 1024 < <(columns 3 6)

  handover_row 'hand-off on Redis; flock' redis flock "$(repeats 3 10)"
  handover_row 'hand-off on Redis; redis-cli' redis redis-cli "$(repeats 15 5)"
  DLOCK_STORE=$redis_store

  compare_watched 'run on Redis, watched; not watched'

  DLOCK_STORE=$redis_store
  bench_crowd ' on Redis'
  bench_order redis ' on Redis'
  DLOCK_STORE=$redis_store

  for count in 8 32; do
    commands_for_each "$count" > "$work/dlock"
    add_row "commands for each of $count contenders" "$(< "$work/dlock")"
  done

  ((runs >= 200)) || seconds=10
  say "redis, idle: $seconds s"
  lock=idle
  hold_for redis
  for ((i = 1; i <= 12; i++)); do
    "$dlock" run -w forever "$lock" -- /bin/true &
    waiters+=($!)
    eventually are_listening "$i"
  done
  guardian=$(pgrep -P "$holder")
  add_row "private memory of a holder's guardian" \
    "$(awk '/^Private/ { k += $2 } END { printf "%.2f MiB", k / 1024 }' "/proc/$guardian/smaps_rollup")"
  before=$(commands_sent)
  sleep "$seconds"
  sent=$(($(commands_sent) - before))
  # The first two waiters send one command a second, the others 0.1.
  add_row 'commands a second of 12 idle waiters' \
    "$(awk -v n="$sent" -v s="$seconds" 'BEGIN { printf "%.2f", n / s }')"
  let_go "$holder"
  wait "${waiters[@]}"
  stop_server
  DLOCK_STORE=$local_store
}
