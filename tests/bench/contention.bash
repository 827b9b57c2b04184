# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/bench/run reads all these files
# Several processes contend for one lock: parts handover, crowd, order and slots of tests/bench/run.

# Prints the nanoseconds from the end of the holder's command to the start of the waiter's,
# which has been in the queue for PAUSE seconds. By default, that is just long enough for the
# work that both still have once it is there.
hand_over() {  # <tool> [<pause>]
  local start
  lock=handover
  rm -f "$work/start"
  hold_for "$1"
  await_turn "$1" "$work/start" 1
  sleep "${2:-0.01}"
  let_go "$holder"
  wait "$waiter"
  start=$(< "$work/start")
  echo $((start - $(end_of "$holder")))
}

# Adds a row: how long the hand-off takes with two tools.
handover_row() {  # <what> <tool> <tool> <rounds> [<pause>]
  local i
  say "handover: $4 rounds of $2, $3"
  for ((i = 0; i < $4; i++)); do
    # No command substitution: its subshell would hide the background jobs.
    hand_over "$2" "${5:-}" > "$work/first"
    hand_over "$3" "${5:-}" > "$work/second"
    echo "$(< "$work/first") $(< "$work/second")"
  done > "$work/samples"
  add_ratio "$1" ' ms' 1000000 < "$work/samples"
}

bench_handover() {
  handover_row 'hand-off to the next command; flock' dlock flock "$(repeats 3 10)"
}

# Adds a row: the rate of sections a second of WORKERS workers, under dlock with 20 sections
# each, and under a peer, whose workers may run fewer.
crowd_row() {  # <what> <workers> <sections of the peer> <words before the peer's command>...
  local count i title=$1 workers=$2 sections=$3
  shift 3
  count=$(repeats 60 3)
  say "crowd: $count rounds of $title"
  for ((i = 0; i < count; i++)); do
    "$work/measure" crowd "$workers" 20 "$dlock" run -w forever crowd -- \
      "$work/section" alone "$work/in" > "$work/dlock" || fail 'a section of the crowd failed under dlock'
    "$work/measure" crowd "$workers" "$sections" "$@" "$work/section" alone "$work/in" \
      > "$work/peer" || fail "a section of the crowd failed under $1"
    awk -v n="$workers" -v s="$sections" -v d="$(< "$work/dlock")" -v p="$(< "$work/peer")" \
      'BEGIN { print n * 20e6 / d, n * s * 1e6 / p }'
  done > "$work/samples"
  add_ratio "$title" ' /s' 1 < "$work/samples"
}

bench_crowd() {  # [<what to add to the title>]
  local workers
  for workers in 8 32; do
    crowd_row "$workers workers of 20 sections${1:-}; flock" "$workers" 20 "$flock" "$file.crowd"
  done
  # These do not depend on the store.
  [[ -z ${1:-} ]] || return 0
  [[ -z $setlock ]] || compare_crowds '' 8 20 setlock
  [[ -z $lckdo ]] || compare_crowds '' 8 20 lckdo
  [[ -z $sem ]] || compare_crowds '' 8 1 sem
}

# Prints how many pairs of waiters ran in another order than that of their arrival.
inversions() {  # <tool>
  local i waiters=()
  lock=order
  rm -f "$work"/start.*
  hold_for "$1"
  for ((i = 1; i <= 8; i++)); do
    await_turn "$1" "$work/start.$i" "$i"
    waiters+=("$waiter")
  done
  let_go "$holder"
  wait "${waiters[@]}"
  cat "$work"/start.? | awk '{ for (i = 1; i < NR; i++) n += came[i] > $1; came[NR] = $1 } END { print n + 0 }'
}

bench_order() {  # [<tool> <where>]
  local count i mine=0 theirs=0
  count=$(repeats 30 3)
  say "order${2:-}: $count rounds of 8 waiters"
  for ((i = 0; i < count; i++)); do
    inversions "${1:-dlock}" > "$work/dlock"
    inversions flock > "$work/flock"
    mine=$((mine + $(< "$work/dlock")))
    theirs=$((theirs + $(< "$work/flock")))
  done
  add_row "pairs of waiters in another order${2:-}; flock" "$mine of $((count * 28))" "$theirs of $((count * 28))"
}

# Eight workers; at most four of them run at a time.
bench_slots() {
  local count i
  count=$(repeats 60 3)
  say "slots: $count rounds"
  for ((i = 0; i < count; i++)); do
    "$work/measure" crowd 8 20 "$dlock" run -n 4 -w forever slots -- /bin/true > "$work/dlock"
    if [[ -n $sem ]]; then
      "$work/measure" crowd 8 1 "$sem" --will-cite --id slots --fg -j4 /bin/true > "$work/peer"
    else
      echo 0 > "$work/peer"
    fi
    awk -v d="$(< "$work/dlock")" -v p="$(< "$work/peer")" \
      'BEGIN { print 160e6 / d, p ? 8e6 / p : 0 }'
  done > "$work/samples"
  if [[ -n $sem ]]; then
    add_ratio '8 workers, semaphore of 4; sem -j4' ' /s' 1 < "$work/samples"
  else
    add_row '8 workers, semaphore of 4' "$(awk '{ n += $1 } END { printf "%.0f /s", n / NR }' "$work/samples")"
  fi
}
