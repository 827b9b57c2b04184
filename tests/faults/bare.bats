#!/usr/bin/env bats
# dlock without resources that AddressSanitizer itself needs, and bugs that it would hide.
# These tests run on builds without it.

setup() {
  load ../bats/support
  use_private_store
}

# Asserts that `run` printed either only the command's output, or a refusal in one line.
assert_worked_or_refused() {
  [[ $status == 0 && $output == started ]] && return
  # A dlock that is not linked statically.
  [[ $status == 127 && $output == *'error while loading shared libraries'* ]] && return
  [[ $status == @(69|78|125) ]] && assert_one_line
}

@test "without /proc dlock says in one line what it lacks" {
  use_private_mounts
  inside mount -t tmpfs none /proc

  run timeout 60 nsenter --mount="/proc/$mounts/ns/mnt" \
    dlock --store local:/mnt/store run job -- echo started

  assert_message 78 /proc
}

# Runs a command where /proc is mounted with these options, without the right to look at other
# users' processes (root has no power over hidepid then), and without control groups.
with_proc() {  # <options> <command>...
  needs_root
  run timeout -s KILL 60 unshare --mount --pid --fork --kill-child \
    sh -c 'mount -t tmpfs none /sys/fs/cgroup && mount -t proc -o "$0" proc /proc && exec "$@"' "$1" \
    setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace "${@:2}"
}

# A command whose processes ignore TERM, have left its session, and belong to another user,
# so that hidepid hides them. Each holds the pipe that `run` reads.
hides='setpriv --reuid 54321 --clear-groups sh -c "trap \"\" TERM; (setsid sleep 60 &); sleep 60"; sleep 60'

assert_hidden_processes_are_killed() {
  local options begin
  for options in hidepid=1 hidepid=2 hidepid=4; do
    begin=$(now_ms)
    with_proc "$options" dlock run --timeout 200ms -k 200ms job -- sh -c "$hides"

    assert_status 124
    (($(now_ms) - begin >= 200))
  done
}

@test "a tree is killed in time though /proc hides its processes" {
  assert_hidden_processes_are_killed
}

@test "a tree is killed in time though /proc hides its processes, on a server as well" {
  use_server

  assert_hidden_processes_are_killed
}

@test "where /proc shows processes alone, a run on a server works, and others say what they lack" {
  with_proc subset=pid dlock run job -- echo started
  assert_message 78 'boot id'

  use_server
  with_proc subset=pid dlock run --timeout 200ms job -- sh -c 'setsid -f sleep 60; sleep 60'
  assert_status 124
}

@test "without /dev/null a lease is kept in the background without the output of who asked for it" {
  use_private_mounts
  inside mount -t tmpfs none /dev

  run inside timeout 60 sh -c 'token=$(dlock acquire job --for-pid $$) && dlock release job --token "$token"'

  assert_status 0
}

@test "with little memory a run works, or says in one line why not" {
  local megabytes
  for megabytes in 16 32 64 300; do
    run timeout 60 prlimit --as=$((megabytes << 20)) dlock run job -- echo started

    assert_worked_or_refused
  done
}

# Runs dlock with only the standard descriptors open, and this limit of descriptors.
run_with_few() {  # <limit> <dlock's argument>...
  run timeout -s KILL 60 bash -c '
    for fd in {3..255}; do eval "exec $fd>&-"; done
    ulimit -n "$0"
    exec dlock "$@"' "$@"
}

# Asserts that `run` worked, or said in one line why not. A dlock that is not linked
# statically may not even start.
assert_worked_or_lacked() {  # <output>
  [[ $status == 0 && $output == "$1" || $output == *'loading shared libraries'* ]] ||
    { assert_status 125 && assert_one_line; }
}

assert_few_descriptors_are_told() {
  local limit
  for limit in {3..12}; do
    run_with_few "$limit" run job -- /bin/echo started

    assert_worked_or_lacked started || { echo "with $limit" >&2; return 1; }
  done
}

@test "with the fewest descriptors a run on a server works, or says in one line that they are too few" {
  use_server

  assert_few_descriptors_are_told
}

@test "with the fewest descriptors other verbs work, or say in one line that they are too few" {
  dlock cache key -- echo 1
  touch "$BATS_TEST_TMPDIR/config"
  for limit in {3..12} 40; do
    run_with_few "$limit" cache key -- echo 1
    assert_worked_or_lacked 1
    run_with_few "$limit" limit job 1000/1s
    assert_worked_or_lacked ''
    run_with_few "$limit" list -q 'no such'
    assert_worked_or_lacked ''
    run_with_few "$limit" list -q --config "$BATS_TEST_TMPDIR/config" 'no such'
    assert_worked_or_lacked ''
    run_with_few "$limit" run --report "$BATS_TEST_TMPDIR/report" job -- /bin/echo 1
    assert_worked_or_lacked 1
    # A hook that cannot be started is a warning.
    run_with_few "$limit" run --on-success true job -- /bin/true
    [[ $status == @(0|125) || $output == *'loading shared libraries'* ]]
  done
  assert_equal "$status $output" '0 ' # with forty
}

# Doctor exits with 2 if there is a problem with the store.
assert_doctor_blames_no_store() {
  local limit
  for limit in {3..16}; do
    run_with_few "$limit" doctor
    [[ $status == [01] || $output == *'loading shared libraries'* ]] ||
      { assert_status 125 && assert_one_line; } || { echo "with $limit" >&2; return 1; }
  done
}

@test "doctor that lacks descriptors does not say that the server is bad" {
  use_server

  assert_doctor_blames_no_store
}

@test "the report names missing descriptors" {
  run_with_few 5 run --report "$BATS_TEST_TMPDIR/report" job -- true

  assert_status 125
  assert_equal "$(jq -r '"\(.outcome) \(.exit_code)"' "$BATS_TEST_TMPDIR/report")" 'error 125'
}

@test "an exhausted inotify limit is not reported as a bug" {
  run strace -f -o /dev/null -e inject=epoll_ctl:error=ENOSPC dlock run job -- true

  assert_message 125 'too many'
}

# --- An old kernel, or a filter of system calls ---

# Runs a command while a system call fails, with ENOSYS as in an old kernel, or EPERM as with some
# filters.
lacking() {  # <call>[,<call>...] <error> <command>...
  run timeout -s KILL 60 strace -f -qq -o "$BATS_TEST_TMPDIR/strace" -e "trace=$1" -e "inject=$1:error=$2" "${@:3}"
}

@test "a system call that dlock needs and lacks is named in one line, and nothing starts" {
  local call error
  for call in getrandom signalfd4 timerfd_create prctl epoll_create1,epoll_create epoll_ctl epoll_wait,epoll_pwait \
    timerfd_settime waitid; do
    for error in ENOSYS EPERM; do
      lacking "$call" "$error" dlock run --stragglers kill job -- echo started

      assert_message 125 "the system call ${call%,*} is missing: Linux is older than 5.3, or a filter"
      is_free job
    done
  done
}

@test "an emulator that lacks what keeps track of orphans is named, on this machine and on a server" {
  local store
  for store in true use_server_as_store; do
    "$store"
    lacking prctl EINVAL dlock run --stragglers kill job -- echo started

    assert_message 125 'the system call prctl is missing' 'an emulator refuses the call'
  done
}

@test "an option that needs a system call which is missing names it" {
  for command in 'run --output on-failure job' 'cache key'; do
    # shellcheck disable=SC2086
    lacking epoll_create1 ENOSYS dlock $command -- echo started
    assert_status 125
    assert_output_contains 'the system call epoll_create1 is missing'
    refute_output_contains started
  done

  lacking memfd_create ENOSYS dlock run --on-start true job -- true
  assert_status 0
  assert_output_contains 'the --on-start command could not be started: the system call memfd_create is missing'
}

@test "acquire --for-pid says that it lacks pidfd_open, and holds nothing" {
  local error
  for error in ENOSYS EPERM; do
    lacking pidfd_open "$error" dlock acquire --for-pid $$ job

    assert_message 125 'the system call pidfd_open is missing'
    is_free job
  done
}

# Those of Linux 5.1 to 5.8 that have a substitute.
@test "a run does without pidfd_open, pidfd_send_signal, clone3, openat2 and faccessat2" {
  local error
  for error in ENOSYS EPERM; do
    lacking pidfd_open,pidfd_send_signal,clone3,openat2,faccessat2 "$error" \
      dlock run --timeout 200ms --kill-after 100ms job -- \
      sh -c 'setsid sh -c "trap \"\" TERM; sleep 60 & wait" & wait'

    assert_message 124
    grep -q INJECTED "$BATS_TEST_TMPDIR/strace"
    is_free job
  done
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
  # Under strace and on a busy machine, a guardian needs time.
  strace -f -qq -o "$trace" dlock run --ttl 9s --store-timeout 300ms job -- \
    sh -c 'trap "" TERM; echo on > "$0"; while :; do sleep 0.1; done' "$trace.on" 2> /dev/null 3>&- &
  tracer=$!
  eventually test -s "$trace.on"

  redis_freezes

  assert_exits 76 "$tracer"
  guardian=$(awk '/PR_SET_NAME, "lock-guardian"/ { print $1 }' "$trace")
  awk -v pid="$guardian" '$1 == pid && /clone|fork/ { on = 1 } $1 == pid && on' "$trace" > "$trace.guardian"
  grep -q 'kill(-*[0-9]*, SIGKILL' "$trace.guardian"
  grep -E '(brk|mmap|mremap|mprotect|write|writev|socket|openat)\(' "$trace.guardian" > "$trace.not-allowed" || true
  # Including those through the descriptor of /proc that it was given.
  assert_equal "$(grep -v -e 'openat(AT_FDCWD, "/proc' -e 'openat([0-9]*, "[0-9]*/stat"' "$trace.not-allowed")" ''
}

@test "without /proc a command on a server is not started" {
  use_server
  use_private_mounts
  inside mount -t tmpfs none /proc

  run timeout 60 nsenter --mount="/proc/$mounts/ns/mnt" dlock run job -- touch "$BATS_TEST_TMPDIR/on"

  assert_message 78 /proc
  [[ ! -e $BATS_TEST_TMPDIR/on ]]
}
