#!/usr/bin/env bats
# The embedded store when any system call fails: the first call of each kind, then the
# second, and so on to the last.
# shellcheck disable=SC2034,SC2086  # the helpers set store and witness, and use what

setup() {
  load ../bats/support
  load injection
  use_injection
}

clean_up() { show_injections; }

# Asserts that the report of a run, the status and the history of its lock say the same.
assert_accounts_agree() {
  local report status history
  report=$(< "$BATS_TEST_TMPDIR/report")
  status=$(dlock status --json job) || true  # it is free
  history=$(dlock history --json job)
  result_of "$report"
  report=$result
  result_of "${status#*'"last_run":'}"
  status=$result
  result_of "$history"  # the newest is the first
  [[ $report == *:* && $status == "$report" && $result == "$report" ]] ||
    complain "report: $report, status: $status, history: $result"
}

# Sets $result to the first outcome and exit code in a JSON document.
result_of() {  # <document>
  local outcome=${1#*'"outcome":'} code=${1#*'"exit_code":'}
  result=${outcome%%[,\}]*}:${code%%[,\}]*}
}

@test "a failed system call prevents the run, or does no harm: report, exit code and history agree" {
  faults=0 compared=0
  # Where there are several errors, dlock takes them for the same, and each call fails with one of them.
  for fault in openat:{EAGAIN/EINTR/ETXTBSY/ESTALE,ENFILE/EMFILE/ENOMEM,EIO/EDQUOT/EROFS} \
    fcntl:{EAGAIN/EINTR,EIO/ENOLCK} pread64:{EIO,EINTR/ESTALE} {'?fstat','?newfstatat'}:EIO \
    pwrite64:{EIO/ENOSPC/EDQUOT/EROFS,EINTR} write:EIO writev:EIO/ENOSPC; do
    call=${fault%:*}
    IFS=/ read -ra errors <<< "${fault#*:}"
    for ((n = 1; n < 100; ++n)); do
      error=${errors[n % ${#errors[@]}]}
      count_runs
      before=$runs
      : > "$BATS_TEST_TMPDIR/report"
      run_with "error=$error" "$call" "$n" run --report "$BATS_TEST_TMPDIR/report" job -- "${witness[@]}" || break
      ! is_about_libraries || continue
      ((++faults))

      assert_ran_or_excused "$before"
      # Not the way to the report or what writes it, nor what such a call can say.
      if [[ $call == @(openat|fcntl|pread64|pwrite64) && $injected != *@(/report|O_PATH|F_DUPFD*EAGAIN)* ]]; then
        ((++compared))
        [[ $code != 125 || $error == @(ENFILE|EMFILE|ENOMEM) ]] || complain 'not a lack of resources'
        ((runs == before)) || assert_accounts_agree
      fi
      assert_sound
    done
  done
  ((faults > 100 && compared > 60))
}

@test "a failed system call prevents the first run in a directory, or does no harm" {
  faults=0
  for fault in {'?mkdir','?mkdirat','?fchmod'}:{EACCES,ENOSPC} openat:{EACCES,ENOSPC} \
    write:{EIO,ENOSPC,EINTR} pwrite64:{EIO,ENOSPC} getdents64:EIO \
    {'?renameat','?renameat2'}:EIO '?chmod':EPERM '?fchmodat':EPERM; do
    for ((n = 1; n < 100; ++n)); do
      rm -rf "$store"
      count_runs
      before=$runs
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

      [[ ! -s $arena/fences ]] || complain 'it was let in'
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
      count_runs
      before=$runs
      run_with error=EIO "$call" "$n" run -w 5s job -- "${witness[@]}" &
      eventually is_queued_or_over $!
      let_go
      wait $! || break
      ((++faults))
      what="EIO at $call number $n"

      count_runs
      ((runs == before + 1)) || [[ -s $BATS_TEST_TMPDIR/said ]] ||
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

    [[ $code == 125 ]] || complain 'not 125'
    says_one_line || complain 'not one line'
    [[ ! -s $arena/fences ]] || complain 'it ran'
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

@test "a hook whose end cannot be watched is awaited all the same" {
  n=0 ends=0
  while run_with error=ENOMEM epoll_ctl $((++n)) run --on-success 'exit 7' job -- true; do
    [[ $injected == *_ADD*pidfd* ]] || continue
    [[ $said != *'could not be started'* ]] || complain 'it was not awaited'
    [[ $said != *'ended with exit code 7' ]] || ((++ends))
  done
  ((ends > 0))
}

# --- Leases and other failures that pass ---

# Takes leases (F_SETLEASE) on files of the store, as a file server or a member of a shared
# directory can, and never gives them up by itself. Sets $lessee.
take_leases() {  # <file>...
  rm -f "$BATS_TEST_TMPDIR/leased"
  /usr/bin/python3 -c '
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
for name in sys.argv[2:]:
    fcntl.fcntl(os.open(name, os.O_RDWR), 1024, fcntl.F_WRLCK)
open(sys.argv[1], "w").close()
signal.pause()' "$BATS_TEST_TMPDIR/leased" "$@" 3>&- &
  lessee=$!
  eventually test -e "$BATS_TEST_TMPDIR/leased"
}

@test "a lease on a file of the store delays a run for as long as the store may take, and then it exits with 69" {
  dlock run job -- true
  for file in "$store"/{sessions,state-*/*.lock}; do
    take_leases "$file"
    begin=$(now_ms)

    run dlock --store-timeout 700ms run job -- echo started

    took=$(($(now_ms) - begin))
    assert_message 69 'F_SETLEASE'
    ((took >= 700))
    kill -KILL "$lessee"
    run dlock run job -- echo started
    assert_equal "$status $output" '0 started'
  done
}

@test "verbs wait for a lease on a file of the store to end" {
  dlock run job -- true
  dlock limit api 5/1h
  dlock fence resource 7
  token=$(dlock acquire -t 1h lease)
  export DLOCK_TOKEN=$token
  for verb in 'run job -- true' 'acquire other' 'renew lease' 'check --fence 1 lease' 'fence resource 8' \
    'limit api 5/1h' 'limit --show api' 'status job' 'history job' list history 'release lease'; do
    take_leases "$store"/{sessions,fences,state-*/head,state-*/*.lock,state-*/*.limit}
    dlock --store-timeout 20s $verb > "$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
    verb_pid=$!
    never_within 100 has_ended "$verb_pid" || { echo "$verb did not wait" >&2; return 1; }

    kill -KILL "$lessee"

    eventually has_ended "$verb_pid"
    status=0
    wait "$verb_pid" || status=$?
    ((status <= 1 || status == 76)) || { cat "$BATS_TEST_TMPDIR/said" >&2; return 1; }
    refute_leased
  done
}

refute_leased() { ! grep F_SETLEASE "$BATS_TEST_TMPDIR/said"; }

@test "a run that cannot change the state of its lock at its end is in the history as in its report" {
  code=0 said='' what=lease
  for kept in false true; do
    hold job --report "$BATS_TEST_TMPDIR/report" --store-timeout 1s
    eventually is_stored "$command"
    take_leases "$store"/state-*/*.lock
    let_go
    never_within 200 has_ended "$holder"
    $kept || kill -KILL "$lessee"

    assert_exits 0 "$holder" 2> /dev/null
    kill -KILL "$lessee" 2> /dev/null || true
    assert_accounts_agree
    dlock history --json job | jq -e '.[0].outcome == "ran"'
    assert_sound
    dlock history --json job | jq -e '.[1].outcome == "ran" and .[1].exit_code == 0'
  done
}

@test "a run whose event cannot be published is granted its lock all the same" {
  dlock watch --json > "$BATS_TEST_TMPDIR/events" 3>&- &
  eventually publishes
  faults=0
  for fault in fcntl:{ENOLCK,EIO,EINVAL} openat:EIO; do
    for n in $(calls_about_events "${fault%:*}"); do
      run_with "error=${fault#*:}" "${fault%:*}" "$n" run job -- "${witness[@]}" || break
      [[ $injected == *@(l_start=3,|\"events\")* ]] || continue
      ((++faults))

      ((code == 0)) || complain "another exit code than the command's"
      [[ -z $said ]] || complain 'it said something'
    done
  done
  ((faults > 3))
}

# Prints which calls of a run, between the lock's mutex and its release, are about events: the byte 3.
calls_about_events() {  # <system call>
  strace -y -o "$log" -e "trace=$1" dlock run job -- "${witness[@]}" 3>&-
  grep -n 'l_start=3,\|"events"' "$log" | cut -d : -f 1
}

publishes() {
  dlock run any -- true
  grep -q any "$BATS_TEST_TMPDIR/events"
}
