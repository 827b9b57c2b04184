#!/usr/bin/env bats
# Lines on standard error that is a stream of the systemd journal's: with a priority.
# shellcheck disable=SC2154  # hold sets holder

setup() {
  load support
  load ../faults/locks
  use_private_store
  said=$BATS_TEST_TMPDIR/said
  : > "$said"
  stream=$(stat -c %d:%i "$said")
}

teardown() { kill_leftovers; }

# Runs dlock with standard error as systemd would connect it to the journal, and prints
# what was said there.
to_journal() {  # <argument>...
  JOURNAL_STREAM=$stream dlock "$@" 2>> "$said" || true
  cat "$said"
}

# What is said begins with this, on each line.
assert_each_line_begins() {  # <text> <lines>
  [[ -n $2 ]]
  local line
  while IFS= read -r line; do
    [[ $line == "$1"* ]] || { printf 'not with %s: %s\n' "$1" "$line" >&2; return 1; }
  done <<< "$2"
}

@test "an error is one for the journal" {
  assert_equal "$(to_journal run lock -- /no/such/command)" \
    '<3>dlock: lock: /no/such/command: command not found'
}

@test "a usage error is one for the journal" {
  assert_each_line_begins '<3>dlock: ' "$(to_journal frobnicate)"
}

@test "that a lock is held is a warning for the journal" {
  hold lock

  assert_each_line_begins '<4>dlock: lock: held by ' "$(to_journal run lock -- true)"
}

@test "that nobody's certificate is verified is a warning for the journal, even with --quiet" {
  assert_each_line_begins '<4>dlock: warning: --tls-insecure' \
    "$(to_journal -q list --store rediss://127.0.0.1:1 --tls-insecure | head -n 1)"
}

@test "steps are information for the journal" {
  assert_each_line_begins '<6>dlock: lock: ' "$(to_journal run -v lock -- true)"
}

@test "that a lock's file is damaged is an error for the journal" {
  dlock run lock -- true
  file=$(echo "${DLOCK_STORE#local:}"/state-*/*.lock)
  truncate -s 0 "$file"

  assert_each_line_begins "<3>dlock: lock: $file is truncated" "$(to_journal status lock)"
}

@test "the command finds standard error and the variable as they were" {
  # shellcheck disable=SC2016
  assert_equal "$(to_journal run lock -- sh -c 'echo "mine $JOURNAL_STREAM" >&2')" \
    "mine $stream"
}

@test "without the variable nothing is put before a line" {
  unset JOURNAL_STREAM
  run dlock run lock

  assert_one_line
}

@test "where standard error is not the journal's stream nothing is put before a line" {
  JOURNAL_STREAM=$stream run dlock run lock

  assert_one_line
}

@test "a variable that is no stream's name changes nothing" {
  local text
  for text in '' : "$(stat -c %i "$said")" "${stream}0" "$stream:"; do
    JOURNAL_STREAM=$text run dlock run lock
    assert_one_line
  done
}
