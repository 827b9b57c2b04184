#!/usr/bin/env bats
# Messages have a priority if standard error is a stream of the systemd journal.
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

# Runs dlock with standard error connected as systemd connects it to the journal. Prints
# what dlock wrote there.
to_journal() {  # <argument>...
  JOURNAL_STREAM=$stream dlock "$@" 2>> "$said" || true
  cat "$said"
}

# Asserts that each line begins with this text.
assert_each_line_begins() {  # <text> <lines>
  [[ -n $2 ]]
  local line
  while IFS= read -r line; do
    [[ $line == "$1"* ]] || { printf 'not with %s: %s\n' "$1" "$line" >&2; return 1; }
  done <<< "$2"
}

@test "an error has the priority of an error" {
  assert_equal "$(to_journal run lock -- /no/such/command)" \
    '<3>dlock: lock: /no/such/command: command not found'
}

@test "a usage error has the priority of an error" {
  assert_each_line_begins '<3>dlock: ' "$(to_journal frobnicate)"
}

@test "the message that a lock is held has the priority of a warning" {
  hold lock

  assert_each_line_begins '<4>dlock: lock: held by ' "$(to_journal run lock -- true)"
}

@test "the message that certificates are not verified has the priority of a warning, even with --quiet" {
  assert_each_line_begins '<4>dlock: warning: --tls-insecure' \
    "$(to_journal -q list --store rediss://127.0.0.1:1 --tls-insecure | head -n 1)"
}

@test "verbose messages have the priority of information" {
  assert_each_line_begins '<6>dlock: lock: ' "$(to_journal run -v lock -- true)"
}

@test "the message that a lock's file is damaged has the priority of an error" {
  dlock run lock -- true
  file=$(echo "${DLOCK_STORE#local:}"/state-*/*.lock)
  truncate -s 0 "$file"

  assert_each_line_begins "<3>dlock: lock: $file is truncated" "$(to_journal status lock)"
}

@test "the command gets standard error and JOURNAL_STREAM unchanged" {
  # shellcheck disable=SC2016
  assert_equal "$(to_journal run lock -- sh -c 'echo "mine $JOURNAL_STREAM" >&2')" \
    "mine $stream"
}

@test "without JOURNAL_STREAM lines have no priority" {
  unset JOURNAL_STREAM
  run dlock run lock

  assert_one_line
}

@test "lines have no priority if standard error is not the journal's stream" {
  JOURNAL_STREAM=$stream run dlock run lock

  assert_one_line
}

@test "lines have no priority if JOURNAL_STREAM is invalid" {
  local text
  for text in '' : "$(stat -c %i "$said")" "${stream}0" "$stream:"; do
    JOURNAL_STREAM=$text run dlock run lock
    assert_one_line
  done
}
