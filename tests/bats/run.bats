#!/usr/bin/env bats
# The basic use of dlock: run a command unless it is running already.
# shellcheck disable=SC2016  # the commands' own variables
# shellcheck disable=SC2154  # hold and queue set holder and waiter

setup() {
  load support
  load ../faults/locks
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  ran=$BATS_TEST_TMPDIR/ran
}

teardown() { kill_leftovers; }

refute() { ! "$@"; }

# Runs dlock with its output in the files `out` and `err`, and sets $status to its exit code.
run_apart() {
  status=0
  timeout -s KILL 20 dlock "$@" > out 2> err < /dev/null || status=$?
}

is_empty() {  # <file>
  [[ ! -s $1 ]] || { echo "in $1:"; cat "$1"; return 1; } >&2
}

@test "dlock run nightly-job -- ./backup.sh runs the backup" {
  printf '#!/bin/sh\necho "backed up" > ran\n' > backup.sh
  chmod +x backup.sh

  dlock run nightly-job -- ./backup.sh

  assert_equal "$(< ran)" 'backed up'
}

@test "the lock is held for as long as the command runs" {
  dlock run job -- sh -c 'dlock status job; echo $? > inside' > /dev/null

  assert_equal "$(< inside)" 0
}

@test "the lock is free when the command has ended" {
  dlock run job -- true

  run dlock status job

  assert_status 1
}

@test "a second run is skipped with 75 while the first one runs" {
  hold job

  run dlock run job -- touch "$ran"

  assert_status 75
}

@test "a skipped command is not started" {
  hold job

  run dlock run job -- touch "$ran"

  refute test -e "$ran"
}

@test "a skipped run says in one line on standard error who holds the lock" {
  hold job

  run_apart run job -- true

  is_empty out
  output=$(< err)
  assert_one_line
  assert_output_contains "dlock: job: held by $(id -un)@$(uname -n) (pid $holder, sh -c "
}

@test "by default, a run does not wait" {
  hold job

  begin=$(now_ms)
  run timeout -s KILL 20 dlock run job -- true

  assert_status 75
  assert_between $(($(now_ms) - begin)) 0 2000
}

@test "-w waits for the lock and then runs the command" {
  hold job
  queue job touch "$ran"

  let_go

  assert_exits 0 "$waiter"
  test -e "$ran"
}

@test "a waiting run does not start its command while another one runs" {
  hold job

  queue job touch "$ran"

  never_within 300 test -e "$ran"
}

@test "a run that waits without a terminal prints nothing" {
  hold job
  dlock run -w 60s job -- true > out 2> err 3>&- &
  waiter=$!
  eventually is_queued job "$waiter"

  let_go

  assert_exits 0 "$waiter"
  is_empty out
  is_empty err
}

@test "a skipped run with -q prints nothing" {
  hold job

  run dlock run -q job -- true

  assert_equal "$output" ''
}

@test "a skipped run with -q has the same exit code" {
  hold job

  run dlock run -q job -- true

  assert_status 75
}

@test "-q does not hide that the command was not found" {
  run_apart run -q job -- no-such-command

  output=$(< err)
  assert_one_line
}

@test "-q does not affect the output of the command" {
  run dlock run -q job -- sh -c 'echo out; echo err >&2'

  assert_equal "$output" $'out\nerr'
}

@test "-E sets the exit code of a skipped run" {
  hold job

  run dlock run -E 200 job -- true

  assert_status 200
}

@test "a skipped run with -E still says who holds the lock" {
  hold job

  run dlock run -E 1 job -- true

  assert_one_line
}

@test "-E also sets the exit code of a wait that ends without the lock" {
  hold job

  run dlock run -w 50ms -E 11 job -- true

  assert_status 11
}

@test "a skipped run with -E 0 exits with 0" {
  hold job

  run dlock run -E 0 job -- true

  assert_status 0
}

@test "a skipped run with -E 0 prints nothing" {
  hold job

  run dlock run -E 0 job -- true

  assert_equal "$output" ''
}

@test "-E does not change the command's own exit code" {
  run dlock run -E 11 job -- sh -c 'exit 75'

  assert_status 75
}

@test "a successful run prints what its command prints, byte for byte, and nothing else" {
  printf 'one\0\377\n\ntwo' > wanted

  run_apart run job -- cat wanted

  cmp out wanted
  is_empty err
}

@test "standard error carries what the command writes there, and nothing else" {
  run_apart run job -- sh -c 'printf "one\\n\\ntwo" >&2'

  assert_equal "$(cat err; echo .)" $'one\n\ntwo.'
  is_empty out
}

@test "a failing run prints what its command prints, and nothing else" {
  run_apart run job -- sh -c 'echo out; echo err >&2; exit 9'

  assert_equal "$status $(< out) $(< err)" '9 out err'
}

@test "-v leaves standard output to the command" {
  run_apart -v run job -- echo mine

  assert_equal "$(< out)" mine
}

@test "-v prints each step as a line on standard error" {
  run_apart run -v job -- true

  (($(wc -l < err) >= 3))
  assert_equal "$(grep -vc '^dlock: job: ' err || true)" 0
}

@test "--jitter lasts at most as long as it says" {
  for _ in 1 2 3 4 5; do
    begin=$(now_ms)
    timeout -s KILL 20 dlock run --jitter 100ms job -- true
    # A process may start late on a busy machine, above all with sanitizers.
    assert_between $(($(now_ms) - begin)) 0 10000
  done
}

@test "--jitter varies from run to run" {
  for _ in {1..5}; do dlock run -v --jitter 100ms job -- true; done 2> err

  (($(grep jitter err | sort -u | wc -l) > 1))
}

@test "--splay is the same each time for a name, and --jitter is added to it" {
  for _ in {1..2}; do dlock run -v --splay 200ms job -- true; done 2> err
  dlock run -v --splay 200ms job-2 -- true 2>> err
  timeout -s KILL 20 dlock run -v --splay 200ms --jitter 1ms job -- true 2>> err

  splays=$(grep -oE 'sleeping for .* \(splay\)' err)
  assert_equal "$(wc -l <<< "$splays")" 3
  assert_equal "$(sort -u <<< "$splays" | wc -l)" 2
  grep -q '(splay and jitter)' err
}

@test "a run does not claim the lock during --jitter" {
  dlock run -v --jitter 1h job -- touch "$ran" 2> err 3>&- &
  eventually grep -q jitter err

  run dlock run job -- true

  assert_status 0
}

@test "locks with different names do not exclude each other" {
  hold job

  run dlock run other-job -- true

  assert_status 0
}

@test "locks in different namespaces do not exclude each other" {
  hold job

  run dlock --namespace other run job -- true

  assert_status 0
}

@test "locks in different directories do not exclude each other" {
  hold job

  run dlock --store "local:$BATS_TEST_TMPDIR/other-store" run job -- true

  assert_status 0
}

@test "on none:, every run starts" {
  export DLOCK_STORE=none:
  dlock run job -- sh -c 'touch "$1"; exec sleep 60' - "$ran" 3>&- &
  eventually test -e "$ran"

  run dlock run job -- echo me too

  assert_equal "$status $output" '0 me too'
}

@test "on none:, a run names the store with -v" {
  run dlock --store none: run -v job -- true

  assert_output_contains 'none:'
}

@test "on none:, the command's environment has the name, the fence, the slot and the store" {
  # shellcheck disable=SC2016
  run dlock --store none: run job -- sh -c \
    'echo "$DLOCK_NAME $DLOCK_SLOT $DLOCK_STORE"; [ "$DLOCK_FENCE" -gt 0 ]'

  assert_equal "$status $output" '0 job 0 none:'
}

@test "on none:, -v says once that no run is excluded, and no file is written" {
  export DLOCK_STORE=none:
  before=$(find "$HOME" "$BATS_TEST_TMPDIR" | sort)

  run dlock -v run job -- true

  assert_equal "$(grep -i exclude <<< "$output" | grep -c none:)" 1
  assert_equal "$(find "$HOME" "$BATS_TEST_TMPDIR" | sort)" "$before"
}

@test "on none:, a lock is shown as free while a run holds it, and no lock is listed" {
  export DLOCK_STORE=none:

  run dlock run job -- sh -c 'dlock status --json job; echo "$?"; dlock list --json'

  assert_equal "${lines[1]}" 1
  assert_equal "$(jq -r '"\(.state) \(.holders | length) \(.last_run)"' <<< "${lines[0]}")" 'free 0 null'
  assert_equal "${lines[2]}" '[]'
}
