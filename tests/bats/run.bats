#!/usr/bin/env bats
# The basic use of dlock: run a command unless it is running already.

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

# Runs dlock with its output in the files `out` and `err`, and sets $status to its exit code.
run_dlock_apart() {
  status=0
  timeout -s KILL 60 dlock "$@" > out 2> err < /dev/null || status=$?
}

is_empty() {  # <file>
  [[ ! -s $1 ]] || { echo "in $1:"; cat "$1"; return 1; } >&2
}

@test "dlock run nightly-job -- ./backup.sh runs the backup, and the lock is held for as long as it runs" {
  printf '#!/bin/sh\ndlock status nightly-job > held && echo "backed up" > ran\n' > backup.sh
  chmod +x backup.sh

  dlock run nightly-job -- ./backup.sh

  assert_equal "$(< ran)" 'backed up'
  run dlock status nightly-job
  assert_status 1
}

@test "a second run does not wait, but is skipped with 75 or what -E says, and one line says who holds the lock" {
  hold job

  run_dlock_apart run job -- touch "$ran"

  assert_status 75
  is_empty out
  output=$(< err)
  assert_one_line
  assert_output_contains "dlock: job: held by $(id -un)@$(uname -n) (pid $holder, sh -c "
  run dlock run -q job -- touch "$ran"
  assert_equal "$status $output" '75 '
  run dlock run -E 200 job -- touch "$ran"
  assert_message 200
  run dlock run -w 50ms -E 11 job -- touch "$ran"
  assert_status 11
  run dlock run -E 0 job -- touch "$ran"
  assert_equal "$status $output" '0 '
  refute test -e "$ran"
}

@test "-w waits for the lock and then runs the command, and prints one line without a terminal" {
  hold job
  dlock run -w 60s job -- touch "$ran" > out 2> err 3>&- &
  waiter=$!
  eventually is_queued job "$waiter"
  never_within 100 test -e "$ran"

  let_go

  assert_exits 0 "$waiter"
  test -e "$ran"
  is_empty out
  assert_equal "$(grep -c 'dlock: job: waiting: held by' err) $(wc -l < err)" '1 1'
}

@test "neither -q nor -E affects what a command does" {
  run dlock run -q -E 11 job -- sh -c 'echo out; echo err >&2; exit 75'
  assert_equal "$status $output" $'75 out\nerr'
}

@test "standard output and standard error are the command's, byte for byte" {
  printf 'one\0\377\n\ntwo' > wanted
  run_dlock_apart run job -- cat wanted
  cmp out wanted
  is_empty err

  run_dlock_apart run job -- sh -c 'cat wanted >&2; exit 9'
  assert_status 9
  cmp err wanted
  is_empty out
}

@test "-v prints each step as a line on standard error, and leaves standard output to the command" {
  run_dlock_apart run -v job -- echo mine

  assert_equal "$(< out)" mine
  (($(wc -l < err) >= 3))
  assert_equal "$(grep -vc '^dlock: job: ' err || true)" 0
}

@test "--jitter varies from run to run, and lasts at most as long as it says" {
  for _ in {1..5}; do timeout -s KILL 60 dlock run -v --jitter 100ms job -- true; done 2> err

  grep -o 'sleeping for .* (jitter)' err > jitters
  assert_equal "$(wc -l < jitters)" 5
  (($(sort -u jitters | wc -l) > 1))
  refute grep -vE 'for (100|[0-9]{1,2})ms ' jitters
}

@test "--splay is the same each time for a name, and --jitter is added to it" {
  for _ in {1..2}; do dlock run -v --splay 200ms job -- true; done 2> err
  dlock run -v --splay 200ms job-2 -- true 2>> err
  timeout -s KILL 60 dlock run -v --splay 200ms --jitter 1ms job -- true 2>> err

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

@test "locks with different names, in different namespaces or directories do not exclude each other" {
  hold job

  dlock run other-job -- true
  dlock --namespace other run job -- true
  dlock --store "local:$BATS_TEST_TMPDIR/other-store" run job -- true
}

@test "on none:, every run starts with a name, a fence and a slot, no file is written, and -v says that none is excluded" {
  export DLOCK_STORE=none:
  dlock run job -- sh -c 'touch "$1"; exec sleep 60' - "$ran" 3>&- &
  eventually test -e "$ran"
  before=$(find "$HOME" "$BATS_TEST_TMPDIR" | sort)

  run dlock run -v job -- sh -c 'echo "$DLOCK_NAME $DLOCK_SLOT $DLOCK_STORE $([ "$DLOCK_FENCE" -gt 0 ]; echo $?)"'

  assert_status 0
  assert_output_contains $'\njob 0 none: 0\n'
  assert_equal "$(grep -i exclude <<< "$output" | grep -c none:)" 1
  assert_equal "$(find "$HOME" "$BATS_TEST_TMPDIR" | sort)" "$before"
}
