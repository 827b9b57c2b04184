#!/usr/bin/env bats
# dlock without resources that every process expects to have.
# shellcheck disable=SC2086  # words

setup() {
  load ../bats/support
  use_private_store
  store=$BATS_TEST_TMPDIR/store
}

# Asserts that `run` printed either only the command's output, or a refusal in one line with
# one of these exit codes.
assert_worked_or_refused() {  # <exit codes, separated by |>
  [[ $status == 0 && $output == started ]] ||
    [[ $status =~ ^($1)$ && $output == 'dlock: '* && $output != *$'\n'* ]] ||
    { printf 'exited with %s and said:\n%s\n' "$status" "$output" >&2; return 1; }
}

# The same, but a lack of descriptors after the start may also be reported.
assert_worked_or_ran_short() {
  local rest
  if rest=$(grep -vx started <<< "$output") && [[ $status == 0 ]]; then
    [[ ${#lines[@]} == 2 && $rest == 'dlock: '*': Too many open files' ]] && return
  fi
  assert_worked_or_refused 125
}

@test "with few descriptors a waiter works, or says in one line that they are too few" {
  for limit in {8..40..2}; do
    hold job
    timeout 60 prlimit --nofile="$limit" dlock run -w 10s job -- echo started \
      > "$began" 2>&1 3>&- &
    eventually is_queued_or_over $!
    waiter=$!
    let_go
    assert_exits 0 "$holder"
    status=0
    wait "$waiter" || status=$?
    output=$(but_for_wait "$began")
    mapfile -t lines <<< "$output"

    assert_worked_or_ran_short
    is_free job
  done
  assert_equal "$status $output" '0 started'
}

is_queued_or_over() { has_ended "$1" || ! nobody_waits job; }

@test "a file of the store never gets descriptor 0, 1 or 2 if these are closed" {
  dlock run job -- sh -c 'readlink /proc/$PPID/fd/[0-2] > "$1"; : > "$1.done"' - \
    "$began" <&- >&- 2>&-

  eventually test -e "$began.done"
  assert_equal "$(grep -v '^/dev/null$' "$began")" ''
}

@test "a limit on file size is reported in one line, and kills nothing" {
  for limit in 0 100 5000 10000 100000; do
    rm -rf "$store"

    run timeout 60 prlimit --fsize="$limit" dlock run job -- echo started

    assert_worked_or_refused '69|78'
  done
}

@test "a release that hits a limit on file size still frees the lock" {
  dlock run job -- true
  hold job
  prlimit --pid "$holder" --fsize=0

  let_go

  assert_exits 0 "$holder"
  is_free job
}

# Runs a verb whose process may write no file, with its output into files that exist.
without_room() {  # <dlock's arguments>...
  run timeout 60 prlimit --fsize=0 dlock "$@"
  [[ $status == 69 ]] || { echo "$*: $status ($output), not 69" >&2; return 1; }
  assert_one_line
  assert_output_contains 'ulimit -f'
}

@test "under a limit on file size every verb that changes the store fails with 69 and one line" {
  dlock run job -- true
  dlock limit api 5/1h
  dlock cache key -- echo value > /dev/null
  token=$(dlock acquire -t 1h lease)
  export DLOCK_TOKEN=$token

  without_room run job -- true
  without_room acquire another
  without_room renew lease
  without_room release lease
  without_room break --yes lease
  without_room fence resource 7
  without_room limit api 5/1h
  without_room limit api 5/1h -- true
  assert_equal "$(look lease .state)" held
  for verb in 'check --fence=1 lease' 'limit --show api' 'limit --reset api' 'cache --show key' \
    'cache --forget key' 'status job' list 'history job' doctor config; do
    run timeout 60 prlimit --fsize=0 dlock $verb
    ((status < 128)) || { echo "$verb: $status" >&2; return 1; }
  done
}

@test "an output file beyond a limit on file size is an error of every verb, and not a death by signal" {
  dlock run job -- true
  dlock limit api 5/1h
  dlock cache key -- echo value > /dev/null

  for verb in 'status job' list 'history job' doctor config --version help --help 'limit --show api' \
    'cache --show key' 'cache key -- true'; do
    run timeout 60 prlimit --fsize=0 sh -c 'dlock "$@" > "$HOME/output"' - $verb
    [[ $status == 69 && $output == *'ulimit -f'* ]] ||
      { echo "$verb: $status ($output)" >&2; return 1; }
  done
  for verb in bogus 'run job' 'status --bogus job' 'run --store redis://127.0.0.1:1 job -- true'; do
    run timeout 60 prlimit --fsize=0 sh -c 'DLOCK_BOGUS=1 dlock "$@" 2> "$HOME/output"' - $verb
    ((status == 64 || status == 69 || status == 77 || status == 78)) ||
      { echo "$verb: $status" >&2; return 1; }
  done
}

@test "the keeper of a lease continues under a limit on file size that it hits" {
  sleep 60 3>&- &
  dlock acquire -t 5s --for-pid "$!" job > /dev/null
  keeper=$(pgrep -f -- "--for-pid $! job")

  prlimit --pid "$keeper" --fsize=0
  # It cannot renew the lease, which expires.
  eventually is_free job

  eventually has_ended "$keeper"
}

@test "a command has the signal for the limit on file size as dlock was started with" {
  dlock run job -- true
  for signal in --default-signal=XFSZ --ignore-signal=XFSZ; do
    for verb in 'run job' 'limit api 9/1h' "cache key$signal"; do
      run env $signal DLOCK_BOGUS=1 dlock $verb -- \
        grep -e '^SigIgn' /proc/self/status
      assert_equal "$(grep SigIgn <<< "$output")" \
        "$(env $signal grep '^SigIgn' /proc/self/status)"
    done
  done
}

@test "setuid is refused" {
  use_private_mounts
  inside install -d -m 755 /mnt/bin
  inside install -m 4755 "$(readlink -f "$DLOCK_BIN")" /mnt/bin/dlock

  run inside setpriv --reuid 1001 --regid 1001 --clear-groups \
    /mnt/bin/dlock --store local:/mnt/store run job -- echo started

  assert_message 77
}
