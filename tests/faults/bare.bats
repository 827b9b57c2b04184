#!/usr/bin/env bats
# dlock without what AddressSanitizer itself cannot do without, and what it would hide.
# These run on the builds that have none.
# shellcheck disable=SC2016  # commands are shells that expand for themselves
# shellcheck disable=SC2154  # the helpers set mounts, holder

setup() {
  load ../bats/support
  load locks
  use_private_store
}

teardown() {
  if declare -F stop_redis > /dev/null; then stop_redis; fi
  kill_leftovers
}

# Asserts that `run` left either the command's output alone, or a refusal in one line.
assert_worked_or_refused() {
  [[ $status == 0 && $output == started ]] && return
  [[ $status == @(69|78|125) ]] && assert_one_line
}

@test "without /proc dlock says in one line what it lacks" {
  use_private_mounts
  inside mount -t tmpfs none /proc

  run timeout 10 nsenter --mount="/proc/$mounts/ns/mnt" \
    dlock --store local:/mnt/store run job -- echo started

  assert_status 78
  assert_one_line
  assert_output_contains /proc
}

@test "with too little memory to map the database dlock says so in one line" {
  run timeout 10 prlimit --as=300000000 dlock run job -- echo started

  assert_worked_or_refused
}

# --- The guardian ---

use_server() {
  load redis
  load tree
  rm -r "${BATS_TEST_TMPDIR:?}"/{bin,home,runtime}
  use_redis_store
}

@test "the guardian costs less than 1.5 MiB of memory" {
  use_server
  hold job

  private=$(awk '/^Private/ { sum += $2 } END { print sum }' "/proc/$(guardian_of "$holder")/smaps_rollup")

  ((private < 1536))
}

@test "once the command runs the guardian allocates nothing, writes nothing, and opens at most what is in /proc" {
  use_server
  trace=$BATS_TEST_TMPDIR/trace
  # Under strace, and beside others, a guardian needs its time.
  strace -f -qq -o "$trace" dlock run --ttl 3s --store-timeout 300ms job -- \
    sh -c 'trap "" TERM; echo on > "$0"; while :; do sleep 0.05; done' "$trace.on" 2> /dev/null 3>&- &
  tracer=$!
  eventually test -s "$trace.on"

  redis_freezes

  assert_exits 76 "$tracer"
  guardian=$(awk '/PR_SET_NAME, "dlock-guardian"/ { print $1 }' "$trace")
  awk -v pid="$guardian" '$1 == pid && /clone|fork/ { on = 1 } $1 == pid && on' "$trace" > "$trace.guardian"
  grep -q 'kill(-*[0-9]*, SIGKILL)' "$trace.guardian"
  grep -E '(brk|mmap|mremap|mprotect|write|writev|socket|openat)\(' "$trace.guardian" > "$trace.not-allowed" || true
  assert_equal "$(grep -v 'openat(AT_FDCWD, "/proc' "$trace.not-allowed")" ''
}

@test "without /proc a command on a server is ended before its lease ends, too" {
  use_server
  use_private_mounts
  inside mount -t tmpfs none /proc
  nsenter --mount="/proc/$mounts/ns/mnt" dlock run --ttl 1s --store-timeout 100ms job -- \
    sh -c 'trap "" TERM; sleep 60 & echo $! > "$0"; while :; do sleep 0.05; done' \
    "$BATS_TEST_TMPDIR/on" 2> /dev/null 3>&- &
  holder=$!
  eventually test -s "$BATS_TEST_TMPDIR/on"

  redis_freezes

  assert_exits 76 "$holder"
  eventually has_ended "$(< "$BATS_TEST_TMPDIR/on")"
}
