#!/usr/bin/env bats
# The embedded store when any system call fails: the first call of each kind, then the
# second, and so on to the last.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154  # the helpers set store and witness, and use what

setup() {
  load ../bats/support
  load locks
  load injection
  use_injection
}

teardown() {
  kill_leftovers
  show_injections
}

@test "a failed system call prevents the run, or does no harm" {
  faults=0
  for fault in openat:{EIO,EINTR} fcntl:{ENOLCK,EINTR} pread64:EIO \
    {'?fstat','?newfstatat'}:EIO pwrite64:{EIO,ENOSPC,EINTR} write:EIO writev:{EIO,ENOSPC}; do
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

@test "a failed system call prevents the first run in a directory, or does no harm" {
  faults=0
  for fault in {'?mkdir','?mkdirat','?fchmod'}:{EACCES,ENOSPC} openat:{EACCES,ENOSPC} \
    write:{EIO,ENOSPC,EINTR} pwrite64:{EIO,ENOSPC} getdents64:EIO \
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

@test "a failed system call never grants a held lock" {
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

@test "a failed system call never keeps a waiter waiting forever" {
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

# A seccomp filter may always refuse it.
@test "a run that may have to find orphans does not start if they do not become its children" {
  for option in --stragglers=kill --stragglers=wait --timeout=9s; do
    run_with error=EPERM prctl 1+ run "$option" job -- "${witness[@]}"

    [[ $code == 78 ]] || complain 'not 78'
    says_one_line || complain 'not one line'
    assert_equal "$(runs)" 0
  done
}

@test "a command that cannot be recorded does not prevent the release of its lock" {
  dlock run any -- true
  faults=0
  # After its first second a run checks whether it still has the lock. A process that it left
  # behind would keep it.
  for call in pwrite64 writev; do
    for ((n = 1; n < 100; ++n)); do
      run_with error=EIO "$call" "$n" run "$call-$n" -- \
        sh -c 'exec > /dev/null 2>&1; sleep 60 & exec sleep 1.2' || break
      [[ $said == *"cannot record the command's process"* ]] || continue
      ((++faults))

      ((code == 0)) || complain "another exit code than the command's"
      says_one_line || complain 'not one line'
      is_free "$call-$n" || complain 'not given back'
    done
  done
  ((faults > 0))
}

@test "a run whose event cannot be published is granted its lock all the same" {
  dlock watch --json > "$BATS_TEST_TMPDIR/events" 3>&- &
  eventually publishes
  faults=0
  for fault in fcntl:{ENOLCK,EIO,EINVAL} openat:EIO; do
    for ((n = 1; n < 100; ++n)); do
      run_with "error=${fault#*:}" "${fault%:*}" "$n" run job -- "${witness[@]}" || break
      # Only the calls between the lock's mutex and its release that are about events: the byte 3.
      grep INJECTED "$log" | grep -q 'l_start=3,\|"events"' || continue
      ((++faults))

      ((code == 0)) || complain "another exit code than the command's"
      [[ -z $said ]] || complain 'it said something'
    done
  done
  ((faults > 3))
}

publishes() {
  dlock run any -- true
  grep -q any "$BATS_TEST_TMPDIR/events"
}
