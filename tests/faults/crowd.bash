# Helpers for the tests in which many wait for one lock. They go with support.bash and
# locks.bash.
# shellcheck disable=SC2034,SC2154  # hold sets holder; some of what is set here is for the tests

declare -gA number_of=()  # of a waiter, by the pid of its dlock

# Has so many wait for the lock `crowd`, which `hold` has. Each runs a command with its
# number as the last argument.
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

# Prints the numbers of the waiters as they stand in line.
line() {
  local pid
  look crowd '.waiters[].pid' | while read -r pid; do echo "${number_of[$pid]}"; done
}

# Prints the KiB of memory that each waiter takes, its guardian included: the mean. What
# they share is divided among them.
memory_of_each() {
  local files guardians
  mapfile -t guardians < <(pgrep -P "$(IFS=,; echo "${!number_of[*]}")")
  files=("${!number_of[@]}" "${guardians[@]}")
  files=("${files[@]/#/\/proc\/}")
  awk -v waiters="${#number_of[@]}" '/^Pss:/ { k += $2 } END { printf "%.0f\n", k / waiters }' \
    "${files[@]/%/\/smaps_rollup}"
}

# Lets the holder go, and waits for all of the crowd.
disperse() {
  let_go
  wait "$holder"
  wait "${!number_of[@]}"
}
