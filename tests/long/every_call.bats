#!/usr/bin/env bats
# TERM, then KILL, at every single system call of a run on a server, of dlock, its guardian
# and the process that becomes the command; and ten thousand short runs. tests/run has
# samples of these (signals.bats, guardian.bats); all of them take many minutes:
#
#   DLOCK_BIN=build/release/dlock bats tests/long
#

setup() {
  load ../bats/support
  load ../faults/redis
  use_redis_store
  export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
  trace=$BATS_TEST_TMPDIR/trace
  started=$BATS_TEST_TMPDIR/started
}

lease=(--ttl 1s --store-timeout 100ms)

# Prints each system call of a run: its name and its number among the calls of that name.
system_calls() {  # <option of strace>...
  strace "$@" -qq -o "$trace" setsid dlock run "${lease[@]}" job -- true > /dev/null 2>&1
  sed -En 's/^([0-9]+ +)?([a-z0-9_]+)\(.*/\2/p' "$trace" | awk '{ print $1, ++seen[$1] }'
}

is_free_again() { (($(left_of job) == -2)); }

# Without these hardly any program works, and no filter of an engine refuses them.
basic='arch_prctl|brk|clock_nanosleep|close|execve|exit_group|futex|getpid|mmap|mprotect|munmap|read|rt_sig[a-z]*|write'

@test "a run of which a filter refuses any one system call works, or says why in one line and starts nothing" {
  local store call number error code tried=0
  cc -O2 -static -o "$BATS_TEST_TMPDIR/without" "$DLOCK_SOURCE/tests/faults/without.c"
  printf '#include <fcntl.h>\n#include <unistd.h>\nint main(int n, char** args) { creat(args[n - 1], 0600); usleep(300000); return 0; }\n' |
    cc -O2 -static -x c -o "$BATS_TEST_TMPDIR/command" -
  for store in "$DLOCK_STORE" "local:$BATS_TEST_TMPDIR/store"; do
    export DLOCK_STORE=$store
    strace -f -qq -o "$trace" dlock run job -- "$BATS_TEST_TMPDIR/command" "$started"
    sed -En 's/^[0-9]+ +([a-z0-9_]+)\(.*/\1/p' "$trace" | sort -u | grep -vxE "$basic" > "$BATS_TEST_TMPDIR/names"
    while read -r call; do
      number=$(printf 'number __NR_%s\n' "$call" | cc -E -P -include sys/syscall.h - | sed -n 's/^number \([0-9]*\)$/\1/p')
      for error in 1 38; do
        what="$call refused with $error on ${store%%:*}" code=0
        rm -f "$started"
        timeout -s KILL 20 "$BATS_TEST_TMPDIR/without" "$error" "$number" -- \
          dlock run "${lease[@]}" "job-$((++tried))" -- "$BATS_TEST_TMPDIR/command" "$started" \
          > "$BATS_TEST_TMPDIR/said" 2>&1 < /dev/null 3>&- || code=$?
        [[ $code == @(0|69|77|78|125) ]] || { echo "$what: exited with $code" >&2; return 1; }
        (($(wc -l < "$BATS_TEST_TMPDIR/said") == (code != 0))) || grep -q 'cannot release' "$BATS_TEST_TMPDIR/said" ||
          { echo "$what: $code, $(< "$BATS_TEST_TMPDIR/said")" >&2; return 1; }
        [[ $code == 0 || ! -e $started ]] || { echo "$what: the command was started" >&2; return 1; }
      done
    done < "$BATS_TEST_TMPDIR/names"
  done
  ((tried > 100))
}

# Runs dlock and sends it a signal at a certain system call. Sets $status.
run_with() {  # <signal> <call> <N> <option of strace>...
  : > "$started"
  status=0
  timeout -s KILL 20 strace "${@:4}" -qq -o "$trace" -e inject="$2:signal=$1:when=$3" \
    setsid dlock run "${lease[@]}" job -- sh -c 'echo > "$0"; exec sleep 0.05' "$started" \
    > "$BATS_TEST_TMPDIR/said" 2>&1 < /dev/null || status=$?
  what="$1 at $2 number $3"
}

assert_nothing_left() {
  eventually no_leftovers || { echo "$what: a process is left" >&2; return 1; }
  eventually is_free_again || { echo "$what: the lock is left" >&2; return 1; }
}

@test "TERM to dlock at every system call ends the run and leaves nothing behind" {
  system_calls > "$BATS_TEST_TMPDIR/calls"
  local call count
  while read -r call count; do
    run_with TERM "$call" "$count"
    [[ $status == @(0|143) ]] || { echo "$what: $status" >&2; return 1; }
    # The signal came before dlock asked the guardian to start the command.
    if [[ $status == 0 && ! -s $started ]]; then echo "$what: nothing was run" >&2; return 1; fi
    eventually no_leftovers
    is_free_again || { echo "$what: the lock is left" >&2; return 1; }
  done < "$BATS_TEST_TMPDIR/calls"
}

@test "TERM to all processes of a run at every system call leaves nothing behind" {
  system_calls -f > "$BATS_TEST_TMPDIR/calls"
  local call count
  while read -r call count; do
    run_with TERM "$call" "$count" -f
    [[ $status == @(0|143) ]] || { echo "$what: $status" >&2; return 1; }
    assert_nothing_left
  done < "$BATS_TEST_TMPDIR/calls"
}

@test "KILL to dlock at every system call leaves no process, and the lock for no longer than its lease" {
  system_calls > "$BATS_TEST_TMPDIR/calls"
  local call count
  while read -r call count; do
    run_with KILL "$call" "$count"
    [[ $status == @(0|137) ]] || { echo "$what: $status" >&2; return 1; }
    assert_nothing_left
  done < "$BATS_TEST_TMPDIR/calls"
}

@test "KILL to each process of a run at every system call leaves no process" {
  system_calls -f > "$BATS_TEST_TMPDIR/calls"
  local call count
  while read -r call count; do
    run_with KILL "$call" "$count" -f
    assert_nothing_left
  done < "$BATS_TEST_TMPDIR/calls"
}

@test "ten thousand short runs leave no key in the server and no process" {
  dlock run job -- true
  before=$(redis DBSIZE)
  for ((i = 0; i < 10000; ++i)); do dlock run job -- true; done

  assert_equal "$(redis DBSIZE)" "$before"
  no_leftovers
}
