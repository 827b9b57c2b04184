#!/usr/bin/env bats
# The embedded store when dlock is killed at any system call, and when any of them fails:
# the first one of its kind, then the second, until a run no longer makes so many.
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load ../bats/support
  load locks
  use_private_store
  # LeakSanitizer does not work under strace.
  export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
  store=$BATS_TEST_TMPDIR/store
  arena=$BATS_TEST_TMPDIR/arena
  log=$BATS_TEST_TMPDIR/strace.log
  mkdir "$arena"
  touch "$arena/fences"
  # Checks that it is alone and notes its fence.
  witness=("$DLOCK_SOURCE/tests/faults/critical_section" "$arena")
}

teardown() {
  kill_leftovers
  grep -e INJECTED -e 'killed by' "$log" >&2 || true
}

# What changes the store, tells others, or starts and ends the command.
calls=('?mkdir' '?mkdirat' '?chmod' '?fchmod' '?fchmodat' openat fcntl pread64 pwrite64
  '?pwritev' writev lseek ftruncate fallocate '?rename' '?renameat' '?renameat2' '?unlink'
  unlinkat close '?vfork' '?clone' wait4 waitid bind sendto pidfd_open inotify_init1
  inotify_add_watch timerfd_create timerfd_settime)

# Runs dlock with a fault at the Nth one of a system call. The exit code goes to $code,
# what it says to $said. Fails if there is no Nth one.
run_with() {  # <fault> <system call> <N> <dlock's arguments>...
  code=0
  timeout 20 strace -y -o "$log" -e "trace=$2" -e "inject=$2:$1:when=$3" \
    dlock "${@:4}" > "$BATS_TEST_TMPDIR/said" 2>&1 3>&- || code=$?
  said=$(< "$BATS_TEST_TMPDIR/said")
  what="$1 at $2 number $3"
  grep -q -e INJECTED -e '^+++ killed by SIGKILL' "$log"
}

complain() {
  printf '%s: %s (exit code %s, said: %s)\n' "$what" "$1" "$code" "$said" >&2
  return 1
}

# What must be true after each fault, whatever it was.
assert_sound() {
  timeout 20 dlock run -w 10s job -- "${witness[@]}" ||
    complain "the next run ends with $?"
  [[ ! -e $arena/violations ]] || complain "$(< "$arena/violations")"
  sort -c -u -n "$arena/fences" || complain 'a fence went back'
}

runs() { wc -l < "$arena/fences"; }

says_one_line() { [[ $said == 'dlock: '* && $said != *$'\n'* ]]; }

is_an_excuse() { [[ $code == @(69|77|78|125) ]]; }

# What a run with a failed system call may do: its command ran and decided the exit code,
# or it did not and the reason is said.
assert_ran_or_excused() {  # <runs before>
  if (($(runs) > $1)); then
    ((code == 0)) || complain "another exit code than the command's"
    [[ -z $said ]] || says_one_line || complain 'more than one line'
  else
    is_an_excuse || complain 'an exit code that is not for this'
    says_one_line || complain 'not one line'
  fi
}

# A program that is not linked statically opens its libraries first.
is_about_libraries() { grep INJECTED "$log" | grep -q '/ld\.so\|\.so\.'; }

@test "a run that is killed at any system call leaves a store that works" {
  dlock run job -- "${witness[@]}"
  kills=0
  for call in "${calls[@]}"; do
    for ((n = 1; n < 100; ++n)); do
      run_with signal=KILL "$call" "$n" run job -- "${witness[@]}" || break
      ((++kills))

      assert_sound
    done
  done
  ((kills > 40))
}

@test "a first run of all that is killed at any system call leaves a store that works" {
  kills=0
  for call in "${calls[@]}"; do
    for ((n = 1; n < 100; ++n)); do
      rm -rf "$store"
      run_with signal=KILL "$call" "$n" run job -- "${witness[@]}" || break
      ((++kills))

      assert_sound
      [[ -z $(find "$store" -name '*.new') ]] || complain 'a draft is left'
    done
  done
  ((kills > 60))
}

@test "a waiter that is killed at any system call does not hold up the next one" {
  kills=0
  for call in fcntl pwrite64 writev unlinkat '?vfork' bind fchmodat; do
    for ((n = 1; n < 100; ++n)); do
      hold job
      run_with signal=KILL "$call" "$n" run -w 20s job -- "${witness[@]}" &
      eventually is_queued_or_over $!
      begin=$(now_ms)
      let_go
      wait $! || break
      ((++kills))
      what="a kill at $call number $n"

      assert_sound
      (($(now_ms) - begin < 2500)) || complain 'it took long'
    done
  done
  ((kills > 20))
}

is_queued_or_over() { has_ended "$1" || ! nobody_waits job; }

@test "a system call that fails in a run keeps it from starting, or is harmless" {
  faults=0
  for fault in openat:{EIO,EINTR} fcntl:{ENOLCK,EINTR} pread64:EIO \
    pwrite64:{EIO,ENOSPC,EINTR} writev:{EIO,ENOSPC} lseek:EIO; do
    for ((n = 1; n < 100; ++n)); do
      before=$(runs)
      run_with "error=${fault#*:}" "${fault%:*}" "$n" run job -- "${witness[@]}" || break
      ! is_about_libraries || continue
      ((++faults))

      assert_ran_or_excused "$before"
      assert_sound
    done
  done
  ((faults > 50))
}

@test "a system call that fails in a first run keeps it from starting, or is harmless" {
  faults=0
  for fault in {'?mkdir','?mkdirat','?fchmod'}:{EACCES,ENOSPC} openat:{EACCES,ENOSPC} \
    pwrite64:{EIO,ENOSPC} fallocate:{EIO,ENOSPC,EOPNOTSUPP,EINTR} \
    {'?renameat','?renameat2'}:EIO '?chmod':EPERM '?fchmodat':EPERM; do
    for ((n = 1; n < 100; ++n)); do
      rm -rf "$store"
      before=$(runs)
      run_with "error=${fault#*:}" "${fault%:*}" "$n" run job -- "${witness[@]}" || break
      ! is_about_libraries || continue
      ((++faults))

      assert_ran_or_excused "$before"
      assert_sound
    done
  done
  ((faults > 40))
}

@test "a system call that fails never lets anybody into a held lock" {
  hold job
  faults=0
  for fault in openat:{EIO,EACCES} fcntl:{EIO,ENOLCK,EINTR,EAGAIN} pread64:EIO; do
    for ((n = 1; n < 100; ++n)); do
      run_with "error=${fault#*:}" "${fault%:*}" "$n" run job -- "${witness[@]}" || break
      ! is_about_libraries || continue
      ((++faults))

      (($(runs) == 0)) || complain 'it was let in'
      [[ $code == 75 ]] || is_an_excuse || complain 'an exit code that is not for this'
      says_one_line || complain 'not one line'
    done
  done
  ((faults > 40))
}

@test "a system call that fails never keeps a waiter from its turn for good" {
  faults=0
  for call in fcntl bind fchmodat pidfd_open pwrite64 inotify_init1; do
    for ((n = 1; n < 100; ++n)); do
      hold job
      before=$(runs)
      run_with error=EIO "$call" "$n" run -w 5s job -- "${witness[@]}" &
      eventually is_queued_or_over $!
      let_go
      wait $! || break
      ((++faults))
      what="EIO at $call number $n"

      (($(runs) == before + 1)) || [[ -s $BATS_TEST_TMPDIR/said ]] ||
        complain 'it had no turn'
      assert_sound
    done
  done
  ((faults > 15))
}
