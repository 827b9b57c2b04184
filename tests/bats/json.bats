#!/usr/bin/env bats
# JSON output cannot control a terminal, and still contains the original text.
# shellcheck disable=SC2154  # hold sets holder; watch sets watcher

setup() {
  load support
  load ../faults/locks
  load watching
  use_private_store
  # Every kind of character that is escaped in output for people, and some that are not.
  hostile=$'\e[2J\x7f\u0080\u009b31m\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff'
  harmless=$'caf\u00e9 \u00a0\u200d\u2030\u65e5\u672c\U1f600 \\ "'
  text=$hostile$harmless
  report=$BATS_TEST_TMPDIR/report
}

teardown() {
  kill_leftovers
}

# Uses perl, which matches whole characters, not bytes.
assert_steers_nothing() {  # <file>
  perl -CSD -ne 'exit 1 if /[^\n\P{Cc}]|[\x{61c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}\x{feff}]/' "$1" ||
    { echo "raw in $1: $(cat -v "$1")" >&2; return 1; }
}

# Asserts that the output of a command is safe to print, and still contains the text.
assert_safe() {  # <filter for the text> <command>...
  "${@:2}" > "$BATS_TEST_TMPDIR/shown"
  assert_steers_nothing "$BATS_TEST_TMPDIR/shown"
  assert_equal "$(jq -r "$1" "$BATS_TEST_TMPDIR/shown")" "$text"
}

@test "status --json, list --json, watch --json and a report escape control characters" {
  watch
  dlock run --report "$report" job -- sh -c 'exec sleep 600' "$text" 3>&- &
  eventually is_held job

  assert_safe '.holders[0].command[3]' dlock status --json job
  assert_safe '.[0].holders[0].command[3]' dlock list --json

  kill -TERM $!
  wait $! || true
  assert_steers_nothing "$report"
  eventually has_seen 'released job 1'
  assert_steers_nothing "$seen"
}

@test "the log of past runs contains no raw control characters" {
  dlock run job -- true "$text"

  assert_steers_nothing "$BATS_TEST_TMPDIR/store/runs.jsonl"
}
