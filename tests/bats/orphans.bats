#!/usr/bin/env bats
# What happens to the lock if dlock is killed and its command is not.

setup() {
  load support
  use_private_store
  ready=$BATS_TEST_TMPDIR/ready
}

# Commands whose dlock will be killed. Each writes to $ready the pid of the process that
# keeps the lock held.
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

# True if the parent of a process has ended.
is_orphan() { [[ $(< "/proc/$1/status") == *$'\nPPid:\t1\n'* ]]; }

# True if a process has used more CPU time than this, in hundredths of a second.
used_more_than() {  # <pid> <number>
  local ticks
  count_ticks "$1"
  ((ticks > $2))
}

count_ticks() {
  local fields
  read -ra fields < "/proc/$1/stat"
  ticks=$((fields[13] + fields[14]))
}

# Asserts that no other run gets `job`.
assert_taken() {
  run dlock run job -- echo started
  assert_status 75
  refute_output_contains started
}

@test "a command whose dlock was killed lives on with the lock, which goes to the first waiter when it ends" {
  hold job
  queue job touch "$began"
  run dlock status job
  refute_output_contains 'has exited'

  kill_dlock

  kill -0 "$command"
  assert_taken
  run dlock status job
  assert_status 0
  assert_output_contains 'its dlock process has exited'
  run dlock status --json job
  assert_equal "$(json '.state, .holders[0].pid')" "held"$'\n'"$command"
  kill -STOP "$command"
  assert_taken
  kill -CONT "$command"
  # One that joins now.
  dlock run --wait 60s job -- true 3>&- &
  later=$!
  eventually is_queued job "$later"
  let_go
  eventually test -e "$began"
  assert_exits 0 "$later"
  is_free job
}

@test "a command that kills its dlock at once and closes its descriptors still holds the lock" {
  dlock run job -- sh -c "$killing" - "$ready" 3>&- &
  assert_exits 137 "$!"
  eventually test -s "$ready"

  assert_taken
  assert_equal "$(look job '.holders[0].pid')" "$(< "$ready")"
}

@test "an orphan without descriptors, or a child that outlives it, holds the lock until it ends" {
  for script in "$closing" "$forking"; do
    rm -f "$ready" "$began"
    orphan job "$script"
    # The notification can come just before the lock is free: dlock then looks again, by a timer.
    queue job touch "$began"
    if [[ $script == "$forking" ]]; then
      kill -KILL "$command"
      eventually has_ended "$command"
    fi
    assert_taken

      kill -KILL "$last"

    eventually test -e "$began"
    assert_exits 0 "$waiter"
  done
}

@test "a killed run is shown as vanished and without an end, even while the next one, with a greater fence, holds the lock" {
  hold job
  fence=$(look job '.holders[0].fence')
  kill -KILL "$holder" "$command"
  eventually is_free job

  run dlock status --json job
  assert_equal "$(json '.last_run | [.outcome, .ended, .duration_ms, .exit_code, .signal]
      | tojson')" '["vanished",null,null,null,null]'
  run dlock run job -- dlock status --json job
  assert_equal "$(json .last_run.outcome)" vanished
  (($(json '.holders[0].fence') > fence))
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

  assert_taken
}

@test "an orphan holds the lock though its entry in /proc cannot be read, and its end wakes one without inotify" {
  orphan job "$closing"
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 run strace -qq -o /dev/null \
    -P "/proc/$last/stat" -e trace=openat -e inject=openat:error=ENFILE \
    dlock run job -- echo started
  assert_status 75

  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 strace -qq -o /dev/null \
    -e trace=inotify_init1 -e inject=inotify_init1:error=EMFILE \
    dlock run -w 60s job -- touch "$began" 3>&- &
  waiter=$!
  eventually somebody_waits job
  kill -KILL "$last"
  assert_exits 0 "$waiter"
  test -e "$began"
}

@test "a process that reuses the pid of an orphaned command does not hold its lock" {
  needs_root
  [[ -w /proc/sys/kernel/ns_last_pid ]] || skip 'this kernel cannot choose pids'
  # In a PID namespace, where no other process takes the pid.
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

  run timeout 60 unshare --pid --fork --kill-child --mount-proc \
    bash -c "$script" - "$closing" "$ready"

  assert_equal "$output" $'held\nsame pid\nfree'
}

@test "a waiter in another PID namespace runs when an orphan ends" {
  needs_root
  hold job
  unshare --pid --fork --kill-child dlock run -w 60s job -- touch "$began" 3>&- &
  eventually somebody_waits job
  kill_dlock

  let_go

  eventually test -e "$began"
}

@test "if the killed dlock was not reaped, status shows the pid of the command, and a waiter sleeps" {
  # A parent that never reaps its child keeps it in the process table.
  bash -c 'dlock run job -- sh -c "echo \$\$ > $0.new; mv $0.new $0; exec sleep 600" &
    exec sleep 600' "$ready" 3>&- &
  eventually test -s "$ready"
  command=$(< "$ready")
  queue job true
  kill -KILL "$(look job '.holders[0].pid')"
  eventually is_orphan "$command"

  run dlock status --json job

  assert_equal "$(json '.state, .holders[0].pid')" "held"$'\n'"$command"
  local ticks
  count_ticks "$waiter"
  never_within 1000 used_more_than "$waiter" $((ticks + 25))
}
