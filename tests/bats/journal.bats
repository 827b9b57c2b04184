#!/usr/bin/env bats
# Messages have a priority if standard error is a stream of the systemd journal.

setup() {
  load support
  use_private_store
  : > "$said"
  stream=$(stat -c %d:%i "$said")
}

# Runs dlock with standard error connected as systemd connects it to the journal. Prints
# what dlock wrote there.
to_journal() {  # <argument>...
  JOURNAL_STREAM=$stream dlock "$@" 2>> "$said" || true
  cat "$said"
}

@test "each message has the priority of an error, a warning or information" {
  local file
  dlock run broken -- true
  file=$(echo "${DLOCK_STORE#local:}"/state-*/*.lock)
  truncate -s 0 "$file"
  hold lock
  while IFS='|' read -r begin words; do
    : > "$said"
    # shellcheck disable=SC2086  # words
    [[ $(to_journal $words | head -n 1) == "$begin"* ]] || { echo "$words: $(< "$said")" >&2; return 1; }
    refute grep -v '^<[346]>dlock: ' "$said"
  done << END
<3>dlock: other: /no/such/command: command not found|run other -- /no/such/command
<3>dlock: |frobnicate
<4>dlock: lock: held by |run lock -- true
<4>dlock: warning: --tls-insecure|-q list --store rediss://127.0.0.1:1 --tls-insecure
<6>dlock: other: |run -v other -- true
<3>dlock: broken: $file is truncated|status broken
END
}

@test "the command gets standard error and JOURNAL_STREAM unchanged" {
  assert_equal "$(to_journal run lock -- sh -c 'echo "mine $JOURNAL_STREAM" >&2')" \
    "mine $stream"
}

@test "lines have no priority if JOURNAL_STREAM is not set or invalid, or standard error is another stream" {
  local text
  run dlock run lock
  assert_one_line
  for text in '' : "$(stat -c %i "$said")" "${stream}0" "$stream:" "$stream"; do
    JOURNAL_STREAM=$text run dlock run lock
    assert_one_line
  done
}
