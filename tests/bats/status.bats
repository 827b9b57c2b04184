#!/usr/bin/env bats
# dlock status: who holds a lock, who waits for it, and how its last run ended.
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load support
  load ../faults/locks
  use_private_store
  store=$BATS_TEST_TMPDIR/store
}

teardown() { kill_leftovers; }


# Asserts that a time is RFC 3339 in UTC, and about now.
assert_is_now() {  # <time>
  local off date='20[0-9]{2}-[01][0-9]-[0-3][0-9]' time='[0-2][0-9]:[0-5][0-9]:[0-6][0-9]'
  [[ $1 =~ ^${date}T$time(\.[0-9]+)?Z$ ]] ||
    { echo "not a time: $1" >&2; return 1; }
  off=$(($(date +%s) - $(date -d "$1" +%s)))
  ((off >= -5 && off <= 60)) || { echo "$off seconds off: $1" >&2; return 1; }
}

# Fails if standard input has a byte that could control a terminal.
is_harmless() { ! LC_ALL=C grep -q '[^ -~]'; }

@test "status --json has the documented keys, in that order, with the documented types and values" {
  export TZ=Pacific/Kiritimati
  dlock run job -- true
  # shellcheck disable=SC2016
  dlock run job --label nightly -- sh -c 'echo "$DLOCK_FENCE" > "$0"; exec sleep 600' "$BATS_TEST_TMPDIR/fence" 'a b' '' 3>&- &
  local holder=$!
  eventually test -s "$BATS_TEST_TMPDIR/fence"
  queue job -- true
  local first=$waiter who
  queue job -- true
  who="$(id -un) $(uname -n)"

  run dlock status --json job

  assert_status 0
  local shape='[keys_unsorted, map(type)] | transpose | map(join(":")) | join(" ")'
  assert_equal "$(json "$shape")" \
    'name:string state:string known:boolean mode:string slots:number free:number holders:array waiters:array last_run:object'
  assert_equal "$(json ".holders[0] | $shape")" 'fence:number slot:number host:string pid:number user:string command:array'\
' label:string since:string held_ms:number expires_in_ms:null attached:boolean'
  assert_equal "$(json ".waiters[0] | $shape")" 'host:string pid:number user:string since:string waiting_ms:number'
  assert_equal "$(json ".last_run | $shape")" 'started:string ended:string duration_ms:number exit_code:number signal:null'\
' host:string user:string outcome:string'
  assert_equal "$(json '.holders[0] | "\(.fence) \(.pid) \(.user) \(.host) \(.label) \(.attached) \(.command[3:])"')" \
    "$(< "$BATS_TEST_TMPDIR/fence") $holder $who nightly true [\"$BATS_TEST_TMPDIR/fence\",\"a b\",\"\"]"
  assert_equal "$(json '.waiters[] | "\(.pid) \(.user) \(.host)"')" "$first $who"$'\n'"$waiter $who"
  local moment
  for moment in .holders[0].since .waiters[0].since .last_run.started .last_run.ended; do
    assert_is_now "$(json "$moment")"
  done
  assert_between "$(json '.waiters[0].waiting_ms')" 0 600000
}

@test "a name that was never used is distinguished from a free lock" {
  for DLOCK_STORE in "local:$BATS_TEST_TMPDIR/store" server; do
    if [[ $DLOCK_STORE == server ]]; then use_server_as_store; fi
    run dlock status job
    assert_equal "$status $output" "1 job  free (never used), in $DLOCK_STORE"
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

@test "status creates and changes no files" {
  dlock status job || true
  [[ ! -e $store ]]
  hold_until_stored job
  before=$(find "$store" -type f -exec md5sum {} +)

  dlock status job
  dlock status another || true

  assert_equal "$(find "$store" -type f -exec md5sum {} +)" "$before"
}

@test "status shows who holds the lock, with which command, and how the last run ended" {
  dlock run job -- sh -c 'exit 3' || true
  hold job --label 'nightly backup'

  run dlock status job

  assert_equal "$status ${lines[0]}" '0 job  held'
  local part
  for part in "$(id -un)@$(uname -n)" "$holder" "sh -c 'exec 3<>" 'nightly backup' '  last run: exit 3, '; do
    assert_output_contains "$part"
  done
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
