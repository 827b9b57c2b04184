#!/usr/bin/env bats
# A run on a server when any system call of dlock, of its guardian, or of the process that
# becomes the command fails: the first call of each kind, then the second, and so on to the
# last.

setup() {
  load ../bats/support
  load redis
  use_redis_store
  # LeakSanitizer does not work under strace.
  export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
  log=$BATS_TEST_TMPDIR/strace.log
}

# Runs dlock with a fault at the Nth call of a system call, counted in each of its processes.
# Sets $code, $said and $what. Fails if there is no Nth call.
run_with() {  # <fault> <system call> <N>
  code=0
  : > "$ran"
  timeout -s KILL 60 strace -f -qq -o "$log" -e "trace=execve,$2" -e "inject=$2:$1:when=$3" \
    dlock run --ttl 6s --store-timeout 2s job -- sh -c 'echo ran > "$0"' "$ran" \
    > "$BATS_TEST_TMPDIR/said" 2>&1 3>&- || code=$?
  said=$(< "$BATS_TEST_TMPDIR/said")
  what="$1 at $2 number $3"
  # Except those that the command itself makes, after its exec.
  awk '$2 ~ /^execve/ && / = 0/ { if (seen++) command = $1 }
    /INJECTED/ && $1 != command { found = 1 } END { exit !found }' "$log"
}

complain() {
  printf '%s: %s (exit code %s, said: %s)\n' "$what" "$1" "$code" "$said" >&2
  return 1
}

has_run() { [[ -s $ran ]]; }

is_free_again() { (($(left_of job) == -2)); }

# What has to be true after each fault.
assert_sound() {
  if has_run; then
    [[ $code == 0 || $code == 70 ]] || complain "another exit code than the command's"
  else
    [[ $code == @(69|70|76|77|78|125) ]] || complain 'an exit code that is not for this'
    [[ $said == 'dlock: '* ]] || complain 'no message'
  fi
  [[ $said != *$'\n'* ]] || complain 'more than one line'
  eventually no_leftovers || complain 'a process is left'
  # At the latest when the lease ends.
  eventually is_free_again || complain 'the lock is left'
}

# Makes each of these calls fail, one by one. Sets $faults to the number of faults.
fail_each() {  # <system call>:<error>...
  local fault n
  faults=0
  for fault; do
    for ((n = 1; n < 60; ++n)); do
      run_with "error=${fault#*:}" "${fault%:*}" "$n" || break
      ((++faults))
      assert_sound
    done
  done
}

@test "a failed system call while the guardian starts prevents the run, or does no harm" {
  fail_each 'clone,?fork,?vfork':EAGAIN socketpair:EMFILE timerfd_create:EMFILE \
    pipe2:EMFILE prctl:EPERM setpgid:EPERM

  ((faults > 8))
}

@test "a failed fork is 125, with the reason, and leaves the lock free" {
  run_with error=EAGAIN 'clone,?fork,?vfork' 1

  assert_equal "$code" 125
  [[ $said == *[Rr]'esource temporarily unavailable'* ]]
  is_free_again
  if has_run; then complain 'the command ran'; fi
}

@test "a guardian that cannot create the command's process is 125, and leaves the lock free" {
  needs_root
  # Its own user, because the limit counts all processes of a user: dlock and its guardian.
  local stranger=54322
  chmod a+x "$BATS_RUN_TMPDIR" "${BATS_TEST_TMPDIR%/*}" "$BATS_TEST_TMPDIR" "$redis_root"
  chmod a+rw "$redis_socket"
  cp "$DLOCK_BIN" "$BATS_TEST_TMPDIR/open-to-all"

  unset DLOCK_PASSWORD_FILE # which must be its user's own
  export DLOCK_PASSWORD=$redis_password

  run setpriv --reuid "$stranger" --regid "$stranger" --clear-groups prlimit --nproc=2 \
    "$BATS_TEST_TMPDIR/open-to-all" run job -- echo started

  assert_message 125 'esource temporarily unavailable'
  is_free_again
}

@test "a failed system call in the event loop of dlock or its guardian leaves nothing behind" {
  fail_each epoll_create1:EMFILE signalfd4:EMFILE epoll_ctl:ENOMEM \
    timerfd_settime:EINVAL ppoll:ENOMEM waitid:EINTR recvfrom:ENOMEM

  ((faults > 8))
}

@test "a descriptor that cannot be watched is 125, and leaves nothing behind" {
  fail_each ioctl:EPERM

  ((faults > 2))
}

is_held_or_over() { has_ended "$1" || ! is_free_again; }

@test "TERM ends a run whichever system call fails" {
  for fault in ioctl:EPERM timerfd_settime:EINVAL epoll_ctl:ENOMEM fcntl:EINVAL prctl:EPERM \
    rt_sigprocmask:EINVAL; do
    for ((n = 1; n < 12; ++n)); do
      : > "$log"
      timeout -s KILL 100 strace -f -qq -o "$log" -e "trace=${fault%:*}" \
        -e "inject=${fault%:*}:error=${fault#*:}:when=$n" \
        dlock run --ttl 6s --store-timeout 2s job -- sleep 600 > "$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
      tracer=$!
      what="$fault number $n"
      code=0
      eventually is_held_or_over "$tracer"
      pkill -TERM -o -x dlock -P "$(pgrep -P "$tracer" -x strace)" || true
      eventually has_ended "$tracer" || complain 'TERM does not end it'
      wait "$tracer" || code=$?
      eventually no_leftovers || complain 'a process is left'
      eventually is_free_again || complain 'the lock is left'
      grep -q INJECTED "$log" || break
    done
  done
}

@test "a failed system call while connecting to the server leaves nothing behind" {
  fail_each socket:EMFILE connect:ECONNREFUSED sendto:EPIPE sendmsg:EPIPE recvmsg:ECONNRESET

  ((faults > 2))
}

@test "without pidfds the whole process tree is still ended" {
  timeout -s KILL 60 strace -f -qq -o "$log" -e trace=pidfd_open -e inject=pidfd_open:error=EMFILE \
    dlock run --timeout 200ms --kill-after 100ms job -- \
    sh -c 'setsid sh -c "trap \"\" TERM; sleep 60 & wait" & wait' > /dev/null 2>&1 3>&- || code=$?

  assert_equal "$code" 124
  grep -q INJECTED "$log"
  no_leftovers
}

# The guardian checks whether the command exists, and then, delayed here, what has ended.
# exec fails in between.
@test "a command that cannot be started is reported as such however late the guardian notices its end" {
  timeout -s KILL 60 strace -f -qq -o "$log" -e trace=execve,waitid \
    -e inject=execve:delay_enter=300000 -e inject=waitid:delay_enter=800000 \
    dlock run job -- /nonexistent/command > /dev/null 2> "$BATS_TEST_TMPDIR/said" 3>&- || code=$?

  assert_equal "$code" 127
  assert_equal "$(< "$BATS_TEST_TMPDIR/said")" \
    'dlock: job: /nonexistent/command: command not found'
}
