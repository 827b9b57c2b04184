#!/usr/bin/env bats
# The embedded store when dlock is killed at any system call: at the first call of each
# kind, then at the second, and so on to the last. On builds without sanitizers, because a
# killed process reports nothing to them.
# shellcheck disable=SC2034,SC2154  # the helpers set store and witness, and use what

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

# The calls that change the store, notify others, or start and stop the command.
calls=('?mkdir' '?mkdirat' '?chmod' '?fchmod' '?fchmodat' openat fcntl pread64 pwrite64
  write writev getdents64 '?rename' '?renameat' '?renameat2' '?unlink' unlinkat close '?vfork'
  '?clone' wait4 waitid bind sendto pidfd_open inotify_init1 inotify_add_watch timerfd_create
  timerfd_settime)

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
  for call in fcntl pwrite64 writev unlinkat '?vfork' bind umask; do
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
      [[ -z $(find "$store" -name 'wake-*') ]] || complain 'its socket is left'
    done
  done
  ((kills > 20))
}

# Makes leases until the file of `job` grows with the next one. Saves the store as it is
# before that, and sets $leases to their number.
fill_file() {
  local label
  printf -v label 'x%.0s' {1..200}
  more=(acquire --slots 1000 -t 1h --label "$label" job)
  for ((leases = 0; ; ++leases)); do
    rm -rf "$store.full"
    [[ ! -d $store ]] || cp -a "$store" "$store.full"
    dlock "${more[@]}" > /dev/null || return
    [[ -z $(find "$store" -name '*.lock' -size +8192c) ]] || return 0
  done
}

@test "a process that is killed while a lock's file grows leaves the old state or the new one" {
  kills=0
  fill_file
  ((leases > 5))
  for call in openat write '?rename' '?renameat' '?renameat2' '?unlink' unlinkat close; do
    for ((n = 1; n < 100; ++n)); do
      rm -rf "$store"
      cp -a "$store.full" "$store"
      run_with signal=KILL "$call" "$n" "${more[@]}" || break
      ((++kills))

      held=$(look job '.holders | length')
      ((held == leases || held == leases + 1)) || complain "$held of $leases are left"
      dlock "${more[@]}" > /dev/null || complain 'the next one is refused'
      assert_equal "$(look job '.holders | length')" $((held + 1))
      [[ -z $(find "$store" -name '*.new') ]] || complain 'a draft is left'
    done
  done
  ((kills > 15))
}
