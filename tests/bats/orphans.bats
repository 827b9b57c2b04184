#!/usr/bin/env bats
# What happens to the lock if dlock is killed and its command is not.
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load support
  load ../faults/locks
  use_private_store
  ready=$BATS_TEST_TMPDIR/ready
  released=$BATS_TEST_TMPDIR/released
  began=$BATS_TEST_TMPDIR/began
}

teardown() { kill_leftovers; }

# Commands whose dlock will be killed. Each writes to $ready the pid of the process that
# keeps the lock held.
# shellcheck disable=SC2016
{
  # Closes all descriptors but the standard ones, as sudo and many daemons do.
  closing='for fd in /proc/$$/fd/*; do
      fd=${fd##*/}
      ((fd < 3)) || eval "exec $fd>&-"
    done
    echo $$ > "$1"
    exec sleep 600'
  # Kills dlock before it stores the pid of the command.
  killing="kill -KILL \$PPID; exec bash -c '$closing' - \"\$1\""
  # Starts a child and names it in $ready.
  forking='sleep 600 & echo $! > "$1.new"; mv "$1.new" "$1"; wait'
  # For a waiter: records when it began.
  timing=(bash -c 'clock_into "$1"' -)
}

# Starts a command under a lock and kills its dlock. Sets $command to its pid, and $last to
# the pid that the command wrote to $ready.
orphan() {  # <name> <script>
  dlock run "$1" -- bash -c "$2" - "$ready" 3>&- &
  holder=$!
  eventually test -s "$ready"
  command=$(pgrep -P "$holder")
  last=$(< "$ready")
  kill_dlock
}

# Kills the holder's dlock and waits until it has ended.
kill_dlock() {
  kill -KILL "$holder"
  assert_exits 137 "$holder"
}

has_waiters() { (($(look "$1" '.waiters | length') > 0)); }

# True if the parent of a process has ended.
is_orphan() { [[ $(awk '/^PPid:/ { print $2 }' "/proc/$1/status") == 1 ]]; }

# Prints the CPU time of a process in hundredths of a second.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

used_more_than() { (($(ticks "$1") > $2)); }

@test "a command survives if its dlock is killed" {
  hold job

  kill_dlock

  kill -0 "$command"
}

@test "a command whose dlock was killed still holds the lock" {
  hold job
  kill_dlock

  run dlock run job -- echo started

  assert_status 75
  refute_output_contains started
}

@test "a command that kills its dlock at once and closes its descriptors still holds the lock" {
  dlock run job -- sh -c "$killing" - "$ready" 3>&- &
  assert_exits 137 "$!"
  eventually test -s "$ready"

  run dlock run job -- echo started

  assert_status 75
  refute_output_contains started
  assert_equal "$(look job '.holders[0].pid')" "$(< "$ready")"
}

@test "status says that the dlock process of a command has exited" {
  hold job
  kill_dlock

  run dlock status job

  assert_status 0
  assert_output_contains 'its dlock process has exited'
}

@test "status does not call a running dlock process gone" {
  hold job

  run dlock status job

  refute_output_contains 'gone'
}

@test "status --json shows the pid of the command if its dlock was killed" {
  hold job
  kill_dlock

  run dlock status --json job

  assert_equal "$(json '.state, .holders[0].pid')" "held"$'\n'"$command"
}

@test "the first waiter runs as soon as an orphaned command ends" {
  hold job
  queue job "${timing[@]}" "$began"
  kill_dlock

  clock_into "$released"
  let_go

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 500
}

@test "a waiter that joins after dlock was killed runs as soon as the orphaned command ends" {
  hold job
  kill_dlock
  queue job "${timing[@]}" "$began"

  clock_into "$released"
  let_go

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 500
}

@test "an orphaned command that closed all descriptors still holds the lock" {
  orphan job "$closing"

  run dlock run job -- echo started

  assert_status 75
  refute_output_contains started
}

@test "the first waiter runs as soon as an orphan without descriptors ends" {
  orphan job "$closing"
  queue job "${timing[@]}" "$began"

  clock_into "$released"
  kill -KILL "$last"

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 500
}

@test "a child that outlives an orphaned command still holds the lock" {
  orphan job "$forking"
  kill -KILL "$command"
  eventually has_ended "$command"

  run dlock run job -- echo started

  assert_status 75
  refute_output_contains started
}

@test "the first waiter runs as soon as the last child of an orphaned command ends" {
  orphan job "$forking"
  queue job "${timing[@]}" "$began"
  kill -KILL "$command"
  eventually has_ended "$command"

  clock_into "$released"
  kill -KILL "$last"

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 500
}

@test "the first waiter runs at once if dlock and its command are killed together" {
  hold job
  queue job "${timing[@]}" "$began"

  clock_into "$released"
  kill -KILL "$holder" "$command"

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 500
}

@test "a run without --wait gets the lock once dlock and its command have been killed" {
  hold job
  kill -KILL "$holder" "$command"
  eventually has_ended "$holder"
  eventually has_ended "$command"

  run dlock run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "the lock of an orphaned command is free when the command ends" {
  hold job
  kill_dlock

  let_go

  eventually is_free job
}

@test "a killed run is shown as vanished and without an end" {
  hold job
  kill -KILL "$holder" "$command"
  eventually is_free job

  run dlock status --json job

  assert_equal "$(json '.last_run | [.outcome, .ended, .duration_ms, .exit_code, .signal]
      | tojson')" '["vanished",null,null,null,null]'
}

@test "a killed run is still shown as vanished while the next run holds the lock" {
  hold job
  kill -KILL "$holder" "$command"
  eventually is_free job
  dlock run job -- dlock status --json job > "$BATS_TEST_TMPDIR/seen"

  output=$(< "$BATS_TEST_TMPDIR/seen")

  assert_equal "$(json .last_run.outcome)" vanished
}

@test "the next fence is greater than that of a killed run" {
  hold job
  fence=$(look job '.holders[0].fence')
  kill -KILL "$holder" "$command"
  eventually is_free job

  # shellcheck disable=SC2016
  run dlock run job -- sh -c 'echo "$DLOCK_FENCE"'

  ((output > fence))
}

@test "a stopped command whose dlock was killed still holds the lock" {
  hold job
  kill_dlock
  kill -STOP "$command"

  run dlock run job -- true

  assert_status 75
}

@test "a command that starts only after its dlock was killed holds the lock" {
  dlock run any -- true
  # Delays the grant, and the command's exec, for which dlock waits in vfork(2).
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 \
    strace -f -qq -o /dev/null -e trace=execve,pwrite64 \
    -e inject=pwrite64:delay_exit=400000:when=1 -e inject=execve:delay_enter=1000000:when=1 \
    dlock run job -- "$BASH" -c "$closing" - "$ready" 3>&- &
  eventually grep -q '"job".*command_pid' "$BATS_TEST_TMPDIR/store/runs.jsonl"
  kill -KILL "$(look job '.holders[0].pid')"
  eventually test -s "$ready"

  run dlock run job -- echo started

  assert_status 75
  refute_output_contains started
}

@test "an orphan whose entry in /proc cannot be read still holds the lock" {
  orphan job "$closing"

  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 run strace -qq -o /dev/null \
    -P "/proc/$last/stat" -e trace=openat -e inject=openat:error=ENFILE \
    dlock run job -- echo started

  assert_status 75
}

@test "a waiter that cannot use inotify gets the lock when an orphan ends" {
  orphan job "$closing"
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 strace -qq -o /dev/null \
    -e trace=inotify_init1 -e inject=inotify_init1:error=EMFILE \
    dlock run -w 60s job -- "${timing[@]}" "$began" 3>&- &
  waiter=$!
  eventually has_waiters job

  kill -KILL "$last"

  assert_exits 0 "$waiter"
  test -s "$began"
}

@test "a process that reuses the pid of an orphaned command does not hold its lock" {
  needs_root
  [[ -w /proc/sys/kernel/ns_last_pid ]] || skip 'this kernel cannot choose pids'
  # In a PID namespace, where no other process takes the pid.
  # shellcheck disable=SC2016
  script='dlock run job -- bash -c "$1" - "$2" &
    until [[ -s $2 ]]; do sleep 0.01; done
    pid=$(< "$2")
    kill -KILL $! && wait $! 2> /dev/null
    dlock status --json job | jq -r .state
    kill -KILL "$pid"
    until [[ ! -e /proc/$pid ]]; do sleep 0.01; done
    sleep 0.1 # /proc knows starts to a hundredth of a second
    echo $((pid - 1)) > /proc/sys/kernel/ns_last_pid; sleep 600 &
    [[ $! == "$pid" ]] && echo "same pid"
    dlock status --json job | jq -r .state'

  run timeout 20 unshare --pid --fork --kill-child --mount-proc \
    bash -c "$script" - "$closing" "$ready"

  assert_equal "$output" $'held\nsame pid\nfree'
}

@test "a waiter in another PID namespace runs when the command ends" {
  needs_root
  hold job
  unshare --pid --fork --kill-child dlock run -w 60s job -- "${timing[@]}" "$began" 3>&- &
  eventually has_waiters job

  clock_into "$released"
  let_go

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 500
}

@test "a waiter in another PID namespace runs when an orphan ends" {
  needs_root
  hold job
  unshare --pid --fork --kill-child dlock run -w 60s job -- "${timing[@]}" "$began" 3>&- &
  eventually has_waiters job
  kill_dlock

  clock_into "$released"
  let_go

  eventually test -s "$began"
  assert_between "$(ms_between "$released" "$began")" 0 500
}

@test "status shows the pid of the command even if the killed dlock was not reaped" {
  # A parent that never reaps its child keeps it in the process table.
  # shellcheck disable=SC2016
  bash -c 'dlock run job -- sh -c "echo \$\$ > $0.new; mv $0.new $0; exec sleep 600" &
    exec sleep 600' "$ready" 3>&- &
  eventually test -s "$ready"
  command=$(< "$ready")
  kill -KILL "$(look job '.holders[0].pid')"
  eventually is_orphan "$command"

  run dlock status --json job

  assert_equal "$(json '.state, .holders[0].pid')" "held"$'\n'"$command"
}

@test "a waiter sleeps even if the killed dlock was not reaped" {
  # shellcheck disable=SC2016
  bash -c 'dlock run job -- sh -c "echo \$\$ > $0.new; mv $0.new $0; exec sleep 600" &
    exec sleep 600' "$ready" 3>&- &
  eventually test -s "$ready"
  command=$(< "$ready")
  queue job true
  kill -KILL "$(look job '.holders[0].pid')"
  eventually is_orphan "$command"

  never_within 1000 used_more_than "$waiter" $(($(ticks "$waiter") + 25))
}


