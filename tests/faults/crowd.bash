# Helpers for tests with many waiters for one lock. They need support.bash.
# shellcheck disable=SC2034,SC2154  # hold sets holder; some of what is set here is for the tests

declare -gA number_of=()  # of a waiter, by the pid of its dlock

# Starts this many waiters for the lock `crowd`, which `hold` holds. Each runs a command with
# its number as the last argument.
gather() {  # <number> <command>...
  local i
  number_of=()
  for ((i = 1; i <= $1; i++)); do
    dlock run --wait 300s crowd -- "${@:2}" "$i" 3>&- &
    number_of[$!]=$i
  done
  EVENTUALLY_MS=120000 eventually so_many_wait "$1"
}

so_many_wait() { [[ $(look crowd '.waiters | length') == "$1" ]]; }

# Prints the numbers of the waiters in the order of the queue.
line() {
  local pid
  look crowd '.waiters[].pid' | while read -r pid; do echo "${number_of[$pid]}"; done
}

# Prints the mean memory of a waiter and its guardian in KiB. Shared memory is divided among
# them.
memory_of_each() {
  local files guardians
  mapfile -t guardians < <(pgrep -P "$(IFS=,; echo "${!number_of[*]}")")
  files=("${!number_of[@]}" "${guardians[@]}")
  files=("${files[@]/#/\/proc\/}")
  awk -v waiters="${#number_of[@]}" '/^Pss:/ { k += $2 } END { printf "%.0f\n", k / waiters }' \
    "${files[@]/%/\/smaps_rollup}"
}

# Ends the holder, and waits for all waiters.
disperse() {
  let_go
  wait "$holder"
  wait "${!number_of[@]}"
}
