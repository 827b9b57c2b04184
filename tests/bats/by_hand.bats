#!/usr/bin/env bats
# Locks by hand: acquire, renew, release and check, and the keeper of --for-pid.

setup() {
  load support
  load ../faults/by_hand
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

# --- acquire ---

@test "acquire prints a different token each time, and the lock stays held after it: others are refused, and print none" {
  run dlock acquire job

  assert_status 0
  [[ $output =~ ^[0-9a-f]{32}$ ]]
  is_held job
  run dlock run job -- echo started
  assert_message 75 'held by'

  tokens=$(for lock in {1..5}; do dlock acquire "$lock"; done | sort -u)

  assert_equal "$(wc -l <<< "$tokens")" 5

  dlock acquire job2 > /dev/null

  run bash -c 'dlock acquire job2 2> /dev/null'
  assert_equal "$status $output" '75 '
  run dlock acquire job2
  assert_message 75 'dlock: job2: held by'
  run dlock acquire -q job2
  assert_equal "$status $output" '75 '
}

@test "acquire --export prints variables from which the other verbs take the lease" {
  run dlock acquire --export job
  [[ $output =~ ^"export DLOCK_NAME='job'"$'\n'"export DLOCK_TOKEN="[0-9a-f]{32}$'\n'"export DLOCK_FENCE="[0-9]+$ ]]
  eval "$output"

  assert_equal "$DLOCK_FENCE" "$(look job '.holders[0].fence')"
  dlock check
  dlock renew "$DLOCK_NAME"
  dlock release "$DLOCK_NAME"
  is_free job
  run dlock check
  assert_status 76
}

@test "every shell reads any name unchanged from acquire --export" {
  local shell name
  for shell in sh bash dash zsh; do
    for name in "it's \"mine\"" '$(touch evaluated)  `touch evaluated` $HOME \ \n' "''" '-n' 'täg *?[a]~!' 'a;b&c|d>e#f={g,h}'; do
      run "$shell" -c 'eval "$(dlock acquire --export -- "$1")" && printf %s "$DLOCK_NAME" &&
        dlock check && dlock release -- "$1"' - "$name"
      assert_equal "$status $output" "0 $name"
    done
  done
  refute test -e evaluated
}

@test "acquire --export prints nothing if the lock is held, and ignores json in the file" {
  echo 'json = true' > dlock.toml
  eval "$(dlock --config dlock.toml acquire --export job)"

  run bash -c 'dlock --config dlock.toml acquire --export job 2> /dev/null'
  assert_equal "$status $output" '75 '
  run dlock --config dlock.toml release job
  assert_equal "$output" '{"free":1}'
}

@test "a signal ends a waiting acquire, which leaves the queue" {
  dlock acquire job
  for signal in TERM HUP; do
    dlock acquire -w forever job > token 2> said 3>&- &
    eventually is_queued job $BASHPID

    kill -$signal $!

    assert_exits $((128 + $(kill -l $signal))) $!
    nobody_waits job
    assert_equal "$(cat token; but_for_wait said)" ''
  done
}

@test "acquire does not hold the lock if the token cannot be written, the pipe was closed, or there is no standard output" {
  [[ -c /dev/full ]]

  for json in '' --json; do
    run sh -c 'dlock acquire job $1 > /dev/full' - $json
    assert_message 69 'cannot write to standard output'
    is_free job
  done

  run perl -e 'pipe(my $read, my $write); close $read; open(STDOUT, ">&", $write);
    exec "dlock", "acquire", "job"'

  assert_message 69 'cannot write to standard output'
  is_free job

  run sh -c 'dlock acquire job >&-'

  assert_message 69 'standard output is closed'
  is_free job
}

@test "status and list show a detached lease with the pid of the script, and status when it expires, unless it is renewed for a process" {
  dlock acquire -t 10m --label 'by hand' job

  assert_equal "$(look job '.holders[0] | "\(.attached) \(.label) \(.command)"')" 'false by hand []'
  assert_between "$(look job '.holders[0].expires_in_ms')" 300000 600000
  run sh -c 'dlock status job; dlock list | grep ^job; dlock history job'
  assert_output_contains '(detached, expires in '
  assert_output_contains $'\njob '
  assert_output_contains 'by hand, still held'

  dlock acquire --for-pid $$ --label nightly job1

  run dlock status job1
  assert_output_contains "(renewed for pid $$)"
  refute_output_contains 'expires in'
  run dlock run job1 -- true
  assert_status 75
  assert_output_contains "(renewed for pid $$, nightly) for "
  refute_output_contains 'expires in'

  run bash -c 'dlock acquire job2 > /dev/null; echo $$'

  assert_equal "$(look job2 '.holders[0].pid')" "$output"
}

@test "a configuration file can have the tables [acquire] and [renew], and a TTL for all verbs of a lock" {
  printf '[acquire]\nttl = "20s"\nslots = 2\n[renew]\nttl = "50s"\n' > dlock.toml

  token=$(dlock --config dlock.toml acquire job)

  assert_equal "$(look job '"\(.slots) \(.holders[0].expires_in_ms <= 20000)"')" '2 true'
  assert_equal "$(dlock --config dlock.toml renew job --token "$token")" 50s

  token=$(dlock acquire -t 2m job1)
  printf '[lock.job1]\nttl = "50s"\n' > dlock.toml

  assert_equal "$(dlock --config dlock.toml renew job1 --token "$token")" 50s
  assert_equal "$(dlock --config dlock.toml renew job1 --token "$token" -t 20s)" 20s
}

# --- Expiry and renewal ---

# Runs acquire, and delays the given writes to the log, which follow the grant. LeakSanitizer
# does not work under strace.
acquire_slowly() {  # <milliseconds> <writes, as in strace's when=> <option>...
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 strace -qq -o trace -P "$PWD/store/runs.jsonl" \
    -e trace=write -e "inject=write:delay_enter=${1}000:when=$2" dlock acquire "${@:3}" job
}

# Starts acquire, and stops it at its first write to the log, which follows the grant. Its output
# goes to the file `token`. Sets $acquirer to its strace, and $stopped to its pid.
acquire_up_to_the_log() {  # <option>...
  rm -f trace
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 strace -qq -o trace -P "$PWD/store/runs.jsonl" \
    -e trace=write -e inject=write:signal=STOP:when=1 dlock acquire "$@" job > token 2> said 3>&- &
  acquirer=$!
  eventually grep -q '^--- stopped by SIGSTOP' trace
  stopped=$(pgrep -P "$acquirer")
}

@test "a lease that expires before its token is printed is acquired again" {
  dlock run other true
  acquire_up_to_the_log -t 5s --json
  eventually is_free job

  kill -CONT "$stopped"

  assert_exits 0 "$acquirer"
  output=$(< token)
  [[ $output =~ '"token":"'([0-9a-f]+) ]]
  dlock renew -t 1h job --token "${BASH_REMATCH[1]}"
  assert_between "$(json .expires_in_ms)" 1 5000
  assert_equal "$(json .free)" 0
  assert_equal "$(json .fence)" "$(look job '.holders[0].fence')"
}

@test "no token is printed if every lease expires before that" {
  dlock run other true

  for json in '' --json; do
    # shellcheck disable=SC2086  # an empty one is no argument
    run acquire_slowly 600 1+ -t 500ms $json
    # With --json, a document follows the message.
    output=${lines[0]}
    assert_message 69 'dlock: job: the store is too slow for so short a lease'
    is_free job
  done
}

@test "no token is printed if the lease has expired and another holder has the lock" {
  dlock run other true
  acquire_up_to_the_log -t 2s
  hold job -w 60s

  kill -CONT "$stopped"

  assert_exits 75 "$acquirer"
  assert_equal "$(< token)" ''
  grep -q 'dlock: job: held by' said
  is_held job
}

@test "a lease that expires before its keeper takes it over is acquired again" {
  dlock run other true
  sleep 600 3>&- &

  acquire_up_to_the_log -t 3s --for-pid $!
  eventually is_free job
  kill -CONT "$stopped"

  assert_exits 0 "$acquirer"
  await_longer_lease job
  dlock release job --token "$(< token)"
}

@test "a renewal that takes longer than the TTL exits with 76" {
  token=$(dlock acquire job)

  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 run strace -qq -o trace -P "$(echo "$PWD"/store/state-*/*.lock)" \
    -e trace=pwrite64 -e inject=pwrite64:delay_enter=600000:when=1 \
    dlock renew -t 500ms job --token "$token"

  assert_message 76 'not held by this token'
}

# --- release ---

@test "release frees the lock and prints nothing, or the number of free slots, and exits with 76 a second time, with a different token, or in a store that was moved" {
  token=$(dlock acquire job)

  run dlock release job --token "$token"

  assert_equal "$status $output" '0 '
  is_free job

  token=$(dlock acquire job1)
  run dlock release job1 --token "${token//[0-9]/a}"
  assert_message 76 'dlock: job1: not held by this token'
  is_held job1
  dlock release job1 --token "$token"

  run dlock release job1 --token "$token"
  assert_message 76 'not held by this token'
  run dlock release -q job1 --token "$token"
  assert_equal "$status $output" '76 '

  dlock acquire -n 3 job2
  token=$(dlock acquire -n 3 job2)

  assert_equal "$(dlock release job2 --token "$token" --json)" '{"free":2}'

  token=$(dlock acquire job3)
  mv store elsewhere
  for verb in renew release; do
    run dlock $verb job3 --token "$token"
    assert_status 76
  done
}

# --- Tokens ---

@test "a token file may be a pipe, and one that never ends, or that no one writes, is refused" {
  token=$(dlock acquire job)
  dlock renew job --token-file <(echo "$token")
  mkfifo fifo
  run timeout 60 dlock renew job --token-file fifo
  assert_message 78 'the pipe was not written to its end'
  for file in /dev/zero /dev/full . large; do
    head -c 10000000 /dev/zero > large
    run timeout 60 dlock renew job --token-file "$file"
    assert_message 78 'token file'
  done
}

@test "a token is in no other output, and not in the store" {
  token=$(dlock acquire -v job 2> said)
  {
    dlock renew -v job --token "$token"
    dlock status --json job
    dlock status job
    dlock list --json
    dlock release -v job --token "$token"
  } >> said 2>&1

  refute grep -q "$token" said
  refute grep -rq "$token" store
}

# --- check ---

@test "check inside runs needs no arguments, prints nothing, knows the outer locks, and fails once the store has been moved away" {
  run dlock run job -- dlock check

  assert_equal "$status $output" '0 '

  run dlock run outer -- dlock run inner -- sh -c 'dlock check && dlock check inner && dlock check outer'
  assert_status 0

  run dlock run outer -- dlock run inner -- dlock check other
  assert_status 76

  dlock run job2 -- dlock check --min-validity 1000d

  run dlock run job3 -- sh -c 'mv store elsewhere; dlock check'

  assert_status 76
}

@test "check says that a grant no longer holds, and names the new holder" {
  dlock run job -- sh -c 'echo "$DLOCK_FENCE" > fence'
  run dlock check job --fence "$(< fence)"
  assert_message 76 'no longer held: the lock is free'

  hold job
  run dlock check job --fence "$(< fence)"
  assert_message 76 "no longer held: now held by $(id -un)@$(uname -n) (pid $holder"
  run dlock -q check job --fence "$(< fence)"
  assert_equal "$status $output" '76 '
  dlock check job --fence "$(look job '.holders[0].fence')"
}

# --- --for-pid ---

@test "the lease of a lock that is kept for a process is renewed, and status shows the pid of the process" {
  for_a_process -t 6s job

  await_longer_lease job
  assert_between "$(look job '.holders[0].expires_in_ms')" 1 6000
  assert_equal "$(look job '.holders[0].pid')" "$beneficiary"
}

@test "a lock that is kept for a process, or for the calling script, is free soon after the process is killed" {
  for_a_process job

  kill -KILL "$beneficiary"

  eventually is_free job
  eventually has_ended "$keeper"

  bash -c 'token=$(dlock acquire job1 --for-pid $$); echo "$token" > token; exec sleep 600' 3>&- &
  eventually test -s token

  kill -KILL $!

  eventually is_free job1
}

@test "the keeper has no descriptor, directory, session or terminal of its caller" {
  exec 7> of-the-caller
  for_a_process job

  assert_equal "$(readlink "/proc/$keeper/fd/"{0,1,2} | sort -u)" /dev/null
  assert_equal "$(readlink "/proc/$keeper/fd/"* | grep of-the-caller)" ''
  assert_equal "$(readlink "/proc/$keeper/cwd")" /
  # It is in a new session, which it does not lead, without a terminal.
  read -r parent session terminal < <(awk '{ print $4, $6, $7 }' "/proc/$keeper/stat")
  refute test "$session" = "$(awk '{ print $6 }' /proc/$$/stat)"
  refute test "$session" = "$keeper"
  assert_equal "$terminal" 0
  refute test "$parent" = $$
}

@test "a command substitution with acquire --for-pid returns at once" {
  sleep 600 3>&- &

  token=$(timeout 60 dlock acquire job --for-pid $! 2>&1)

  [[ $token =~ ^[0-9a-f]{32}$ ]]
}

@test "release frees a lock that is kept for a process, and its keeper ends without an effect on the next holder" {
  for_a_process -t 2s job

  dlock release job --token "$token"

  is_free job
  dlock acquire job -t 1h
  eventually has_ended "$keeper"

  kill -KILL "$beneficiary"
  is_held job
  assert_between "$(look job '.holders[0].expires_in_ms')" 1000000 3600000
}

@test "a lease whose keeper is killed, or gets SIGTERM, expires at its TTL" {
  for_a_process -t 6s job
  kill -KILL "$keeper"
  is_held job

  for_a_process -t 2s job1
  kill -TERM "$keeper"

  eventually is_free job
  eventually is_free job1
  eventually has_ended "$keeper"
}

@test "a keeper that gets SIGTERM before its process still releases the lock" {
  for_a_process -t 1h job

  kill -TERM "$keeper"
  never_within 200 has_ended "$keeper"
  kill -TERM "$beneficiary"

  eventually is_free job
}

@test "an acquire that is killed while it waits leaves neither a keeper nor a waiter" {
  hold job
  sleep 600 3>&- &
  beneficiary=$!
  dlock acquire -w forever job --for-pid "$beneficiary" 3>&- &
  eventually is_queued job "$beneficiary"

  kill -KILL $!

  eventually nobody_waits job
  eventually no_keeper
}

@test "an acquire that is killed before it has printed the token leaves no keeper and no lock" {
  sleep 600 3>&- &
  beneficiary=$!
  mkfifo full
  exec 8<> full
  dd if=/dev/zero bs=4096 oflag=nonblock >&8 2> /dev/null || true
  dlock acquire -t 1h job --for-pid "$beneficiary" > full 3>&- 8>&- &
  acquiring=$!
  eventually keeper_is_at_work

  kill -KILL "$acquiring"

  eventually is_free job
  eventually no_keeper
}

# True if the keeper has opened the store, which it does once the lock is granted.
keeper_is_at_work() { readlink "/proc/$(keepers | grep -vx "$acquiring")/fd/"* | grep -q state-; }

@test "acquire --for-pid stops waiting when the process ends" {
  hold job
  sleep 600 3>&- &
  beneficiary=$!
  dlock acquire -w forever job --for-pid "$beneficiary" 2> said 3>&- &
  eventually is_queued job "$beneficiary"

  kill -KILL "$beneficiary"

  assert_exits 75 $!
  assert_equal "$(but_for_wait said)" "dlock: job: process $beneficiary has ended"
  nobody_waits job
  eventually no_keeper
}

@test "an acquire that is refused, or cannot write the token, leaves no keeper" {
  hold job
  sleep 600 3>&- &
  beneficiary=$!

  run dlock acquire job --for-pid "$beneficiary"

  assert_status 75
  eventually no_keeper

  sleep 600 3>&- &
  beneficiary=$!

  run sh -c 'dlock acquire job1 -t 1h --for-pid "$1" > /dev/full' - "$beneficiary"

  assert_status 69
  is_free job1
  eventually no_keeper
}

@test "a lock can be kept neither for a thread nor for an invalid pid" {
  /usr/bin/python3 -c 'import os, sys, threading
sleeper = threading.Thread(target=threading.Event().wait, daemon=True)
sleeper.start()
print(sleeper.native_id, file=open(sys.argv[1] + ".new", "w"))
os.rename(sys.argv[1] + ".new", sys.argv[1])
sleeper.join()' "$BATS_TEST_TMPDIR/thread" 3>&- &
  eventually test -s "$BATS_TEST_TMPDIR/thread"

  run dlock acquire job --for-pid "$(< "$BATS_TEST_TMPDIR/thread")"

  assert_message 64 'there is no process'
  is_free job

  sleep 0 3>&- &
  gone=$!
  wait "$gone"

  for pid in "$gone" 0 -1 abc 1.5 ''; do
    run dlock acquire job --for-pid="$pid"
    assert_message 64 --for-pid
  done
  is_free job
}
