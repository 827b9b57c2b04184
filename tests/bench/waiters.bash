# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/bench/run reads all these files
# The costs of idle holders and waiters: parts idle and waiters of tests/bench/run.

# Prints the processor time of processes, in ticks of 10 ms.
ticks_of() { cat "${@/%//stat}" | sed 's/.*) //' | awk '{ n += $12 + $13 } END { print n + 0 }'; }
# Prints the memory of each waiter with its guardian, in MiB. Each process counts its share of a
# shared page.
memory_of() {  # <number> <directory in /proc>...
  local number=$1
  shift
  awk -v n="$number" '/^Pss:/ { k += $2 } END { printf "%.2f MiB", k / 1024 / n }' "${@/%//smaps_rollup}"
}

# Adds rows: what NUMBER waiters for one lock cost.
idle_rows() {  # <tool> <number> <where>
  local i pids=() places before after sent=0 seconds=10
  # On Redis, longer than the 45 s between the requests of a waiter.
  [[ $1 != redis ]] || seconds=50
  ((runs >= 200)) || seconds=3
  say "waiters$3: $2 for $seconds s"
  lock=waiters.$2
  hold_for "$1"
  for ((i = 0; i < $2; i++)); do
    case $1 in
      dlock | redis) "$dlock" run -w forever "$lock" -- /bin/true & ;;
      flock) "$flock" "$file.wait" /bin/true & ;;
    esac
    pids+=($!)
  done
  case $1 in
    redis) eventually are_listening "$2" ;;
    *) eventually "$1_waiters_are" "$2" ;;
  esac
  mapfile -t places < <({ printf '%s\n' "${pids[@]}"; pgrep -P "$(IFS=,; echo "${pids[*]}")" || true; } | sed 's|^|/proc/|')
  [[ $1 != redis ]] || sent=$(commands_sent)
  before=$(ticks_of "${places[@]}")
  sleep "$seconds"
  after=$(ticks_of "${places[@]}")
  ((seconds != 50)) || add_row "$2 idle waiters$3: commands a second" \
    "$(awk -v n=$(($(commands_sent) - sent)) -v s="$seconds" 'BEGIN { printf "%.1f", n / s }')"
  add_row "$2 idle waiters$3: processor" \
    "$(awk -v n=$((after - before)) -v s="$seconds" 'BEGIN { printf "%.1f %%", n / s }')"
  add_row "$2 idle waiters$3: memory of each" "$(memory_of "$2" "${places[@]}")"
  let_go "$holder"
  wait "${pids[@]}"
}

bench_waiters() {
  local count counts=(100 1000)
  ((runs >= 200)) || counts=(100)
  for count in "${counts[@]}"; do
    idle_rows dlock "$count" ''
    idle_rows flock "$count" ' of flock'
  done
  [[ -n $server ]] || return 0
  start_server
  for count in "${counts[@]}"; do idle_rows redis "$count" ' on Redis'; done
  DLOCK_STORE=$local_store
  stop_server
}

switches_of() { awk '/ctxt_switches/ { n += $2 } END { print n }' "/proc/$1/status"; }
resident_of() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }

bench_idle() {
  local i seconds=10 waiters=() flocks=() before after held memory=() places=()
  ((runs >= 300)) || seconds=3
  say "idle: $seconds s"
  lock=idle
  hold_for dlock
  held=$holder
  for ((i = 1; i <= 4; i++)); do
    await_turn dlock "$work/idle" "$i"
    waiters+=("$waiter")
  done
  hold_for flock
  await_turn flock "$work/idle" 1
  flocks=("$holder" "$waiter")
  sleep 1  # until the waiters have finished their start-up

  before=$(for i in "${waiters[@]}"; do switches_of "$i"; done)
  sleep "$seconds"
  after=$(for i in "${waiters[@]}"; do switches_of "$i"; done)
  mapfile -t places < <(paste <(echo "$before") <(echo "$after") |
    awk -v s="$seconds" '{ printf "%.2f\n", ($2 - $1) / s }')
  for i in "$held" "${waiters[2]}" "${flocks[@]}"; do
    memory+=("$(awk -v k="$(resident_of "$i")" 'BEGIN { printf "%.2f MiB", k / 1024 }')")
  done
  let_go "$held"
  let_go "${flocks[0]}"
  wait "${waiters[@]}" "${flocks[1]}"

  add_row 'wake-ups a second of the first in the queue; flock' "${places[0]}" 0
  add_row 'wake-ups a second of the third; flock' "${places[2]}" 0
  add_row 'wake-ups a second of the fourth; flock' "${places[3]}" 0
  add_row 'resident memory of a holder; flock' "${memory[0]}" "${memory[2]}"
  add_row 'resident memory of a waiter; flock' "${memory[1]}" "${memory[3]}"
}
