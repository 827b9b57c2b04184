#!/usr/bin/env bats
# dlock status: who holds a lock, who waits for it, and how its last run ended.

setup() { load support && use_private_store; }

# Fails if standard input has a byte that could control a terminal.
is_harmless() { ! LC_ALL=C grep -q '[^ -~]'; }

@test "a name that was never used is distinguished from a free lock" {
  for DLOCK_STORE in "local:$BATS_TEST_TMPDIR/store" server; do
    if [[ $DLOCK_STORE == server ]]; then use_server_as_store; fi
    run dlock status job
    assert_equal "$status $output" "1 job  free (never used), in $DLOCK_STORE"
    # It has created nothing.
    [[ $DLOCK_STORE != local:* || ! -e $BATS_TEST_TMPDIR/store ]]
    assert_equal "$(look job .known)" false

    dlock release job --token "$(dlock acquire job)"
    run dlock status job
    assert_equal "$status $output" '1 job  free'
    assert_equal "$(look job .known)" true
  done
}

@test "status exits with 0 if any of the locks is held, and with 1 if they are free or promised to a waiter" {
  hold job

  run dlock status free job
  assert_status 0
  [[ ${lines[0]} == 'free  free (never used)'* ]]
  assert_output_contains $'\n\njob  held'
  run dlock status --json free job
  assert_equal "$status $(jq -r 'map("\(.name) \(.state)") | join(", ")' <<< "$output")" '0 free free, job held'
  queue job -- true
  kill -STOP "$waiter"
  let_go
  assert_exits 0 "$holder"
  run dlock status job other
  assert_status 1
  run dlock status free ''
  assert_status 64
}

@test "a command's text is valid JSON, and cannot control the reader's terminal" {
  # shellcheck disable=SC1003
  dlock run job -- sh -c 'exec sleep 600' $'\e]52;c;x\a\e[2J' $'a\nb\r' $'\xff\xfe' $'\u202e\u2066' '"\' 3>&- &
  eventually is_held job

  dlock status job > "$BATS_TEST_TMPDIR/shown"
  is_harmless < "$BATS_TEST_TMPDIR/shown"
  grep -q '\\x1b' "$BATS_TEST_TMPDIR/shown"
  run dlock status --json job
  # shellcheck disable=SC1003
  assert_equal "$(json '.holders[0].command | "\(length) \(.[4]) \(.[7])"')" $'8 a\nb\r "\\'
}

@test "there is color on a terminal that is not dumb, unless NO_COLOR or --color never is set, and never with --json" {
  hold job
  local words has
  printf '#!/bin/sh\nexec script -qec "dlock $*" /dev/null < /dev/null\n' > "$BATS_TEST_TMPDIR/on_terminal"
  chmod +x "$BATS_TEST_TMPDIR/on_terminal"

  while IFS='|' read -r words has; do
    # shellcheck disable=SC2086
    run env $words
    [[ $output == *'job  '* || $output == *'"name":"job"'* ]]
    assert_equal "$words: $([[ $output != *$'\e['* ]] || echo color)" "$words: $has"
  done << END
dlock status job|
TERM=xterm $BATS_TEST_TMPDIR/on_terminal status job|color
TERM=xterm NO_COLOR= $BATS_TEST_TMPDIR/on_terminal status job|color
TERM=xterm NO_COLOR=1 $BATS_TEST_TMPDIR/on_terminal status job|
TERM=dumb $BATS_TEST_TMPDIR/on_terminal status job|
TERM=xterm $BATS_TEST_TMPDIR/on_terminal --color never status job|
NO_COLOR=1 dlock --color always status job|color
dlock --color always status --json job|
END
}
