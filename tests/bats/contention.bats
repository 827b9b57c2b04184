#!/usr/bin/env bats
# Many processes contend for one lock while some are killed and some are stopped.
#
# DLOCK_CONTENTION_SECONDS is the duration. DLOCK_CONTENTION_SEED repeats the random choices
# of a run that failed, as far as the kernel's scheduling allows.

setup() {
  seconds=${DLOCK_CONTENTION_SECONDS:-30}
  RANDOM=${DLOCK_CONTENTION_SEED:=$((EPOCHSECONDS % 32768))}
  echo "DLOCK_CONTENTION_SEED=$DLOCK_CONTENTION_SEED"
  load support
  load ../faults/locks
  use_private_store
  arena=$BATS_TEST_TMPDIR/arena
  mkdir "$arena"
}

teardown() {
  kill_leftovers
  head -n 20 "$arena/violations" "$arena/failures" "$arena/messages" 2> /dev/null || true
}

# Prints the pid of the command that is in the critical section. Fails if it sees none.
present_command() {
  local pid
  for _ in {1..20}; do
    if read -r pid _ < "$arena/inside" &&
      grep -q critical_section "/proc/$pid/cmdline"; then
      echo "$pid"
      return
    fi
    sleep 0.001
  done
  return 1
}

is_dlock() { [[ $(tr '\0' ' ' < "/proc/$1/cmdline") == 'dlock run '* ]]; }

dlock_of() {  # <pid of a command>
  local pid
  pid=$(awk '/^PPid:/ { print $2 }' "/proc/$1/status") && is_dlock "$pid" && echo "$pid"
}

any_dlock() {
  local pid
  read -r pid < "$arena/contender.$((RANDOM % 40))" && is_dlock "$pid" && echo "$pid"
}

stop_for() {  # <seconds> <pid>
  kill -STOP "$2" && sleep "$1" && kill -CONT "$2"
}

# Kills or stops a process at random: the command in the critical section, its dlock, or any
# dlock.
accident() {
  local command='' holder='' any='' while=0.$((RANDOM % 2))$((RANDOM % 10))
  local which=$((RANDOM % 9))
  if ((which < 5)); then
    command=$(present_command) && holder=$(dlock_of "$command") || return
  else
    any=$(any_dlock) || return
  fi
  case $which in
    0) kill -KILL "$command" ;;
    1) kill -KILL "$holder" ;;
    2) kill -KILL "$holder" "$command" ;;
    3) stop_for "$while" "$command" ;;
    4) stop_for "$while" "$holder" ;;
    5) kill -KILL "$any" ;;
    6) kill -TERM "$any" ;;
    7) stop_for "$while" "$any" ;;
    8)
      # Only seldom for longer than a promise of the lock lasts, because this delays all
      # contenders by three seconds.
      ((RANDOM % 4)) || stop_for 4 "$any"
      ;;
  esac
}

# Increments the shared counter fifty times.
count_up() {
  local counter=$BATS_TEST_TMPDIR/counter
  # shellcheck disable=SC2016
  for _ in {1..50}; do
    dlock run -w 60s counting -- sh -c 'read -r n < "$0"; echo $((n + 1)) > "$0"' "$counter"
  done
}

@test "ten processes that increment one counter lose no update" {
  echo 0 > "$BATS_TEST_TMPDIR/counter"

  counters=()
  for _ in {1..10}; do
    count_up 3>&- &
    counters+=($!)
  done

  for counter in "${counters[@]}"; do assert_exits 0 "$counter"; done
  assert_equal "$(< "$BATS_TEST_TMPDIR/counter")" 500
}

@test "forty processes that are killed and stopped at random never hold a lock at the same time" {
  for number in {0..39}; do
    "$DLOCK_SOURCE/tests/faults/contender" "$arena" "$number" "$seconds" 3>&- &
  done

  while ((SECONDS < seconds)); do
    accident 2> /dev/null 3>&- &
    sleep "0.0$((RANDOM % 10))"
  done
  # Not by waiting for their pids, which later accidents may have reused.
  export EVENTUALLY_MS=60000
  for number in {0..39}; do eventually test -e "$arena/done.$number"; done

  [[ ! -e $arena/violations ]]
  [[ ! -e $arena/failures ]]
  sort -c -u -n "$arena/fences"
  (($(wc -l < "$arena/fences") > seconds))
  timeout 60 dlock run -w 10s contended -- true
  nobody_waits contended
}
