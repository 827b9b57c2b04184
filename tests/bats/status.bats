#!/usr/bin/env bats
# dlock status: who holds a lock, who waits for it, and how its last run ended.
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load support
  load ../faults/locks
  use_private_store
  store=$BATS_TEST_TMPDIR/store
  host=$(uname -n)
  user=$(id -un)
}

teardown() { kill_leftovers; }

# Asserts the result of a jq filter on the status of `job`.
assert_shows() {  # <filter> <expected>
  run dlock status --json job
  assert_equal "$(json "$1")" "$2"
}

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

# --- For programs ---

@test "status --json has the documented keys in the documented order" {
  hold job
  queue job -- true

  run dlock status --json job

  assert_equal "$(json 'keys_unsorted | join(" ")')" \
    'name state known mode slots free holders waiters last_run'
  assert_equal "$(json '.holders[0] | keys_unsorted | join(" ")')" \
    'fence slot host pid user command label since held_ms expires_in_ms attached'
  assert_equal "$(json '.waiters[0] | keys_unsorted | join(" ")')" \
    'host pid user since waiting_ms'
}

@test "the last run in status --json has the documented keys in the documented order" {
  dlock run job -- true

  assert_shows '.last_run | keys_unsorted | join(" ")' \
    'started ended duration_ms exit_code signal host user outcome'
}

@test "status --json has the documented types" {
  dlock run job -- true
  hold job
  queue job -- true

  assert_shows 'map(type) | join(" ")' \
    'string string boolean string number number array array object'
  assert_shows '.holders[0] | map(type) | join(" ")' \
    'number number string number string array string string number null boolean'
  assert_shows '.waiters[0] | map(type) | join(" ")' 'string number string string number'
  assert_shows '.last_run | map(type) | join(" ")' \
    'string string number number null string string string'
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

@test "status exits with 1 for a lock that is free" {
  dlock run job -- true

  run dlock status job

  assert_status 1
}

@test "status exits with 1 for a lock that is promised to a waiter" {
  hold job
  queue job -- true
  kill -STOP "$waiter"
  let_go
  assert_exits 0 "$holder"

  run dlock status job

  assert_status 1
}

@test "a lock that was never used is free" {
  run dlock status --json job

  assert_status 1
  assert_equal "$output" "$(tr -d '\n ' <<< '{"name":"job","state":"free","known":false,
    "mode":"exclusive","slots":1,"free":1,"holders":[],"waiters":[],"last_run":null}')"
}

@test "status of several locks exits with 0 if any of them is held" {
  hold job

  run dlock status free job
  assert_status 0
  [[ ${lines[0]} == 'free  free (never used)'* ]]
  assert_output_contains $'\n\njob  held'
  run dlock status --json free job
  assert_equal "$status $(jq -r 'map("\(.name) \(.state)") | join(", ")' <<< "$output")" '0 free free, job held'
  run dlock status free other
  assert_status 1
  run dlock status free ''
  assert_status 64
}

@test "status of a lock that was never used creates no files" {
  dlock status job || true

  [[ ! -e $store ]]
}

@test "status changes no files" {
  hold_until_stored job
  before=$(find "$store" -type f -exec md5sum {} +)

  dlock status job
  dlock status another || true

  assert_equal "$(find "$store" -type f -exec md5sum {} +)" "$before"
}

@test "the holder is shown with the pid of its dlock, the user, the host and the command as given" {
  dlock run job -- sh -c 'exec sleep 600' 'a b' '' 3>&- &
  eventually is_held job

  assert_shows '.holders[0] | "\(.pid) \(.user) \(.host)"' "$! $user $host"
  assert_shows '.holders[0].command | tojson' '["sh","-c","exec sleep 600","a b",""]'
}

@test "the fence of the holder is that of the command" {
  # shellcheck disable=SC2016
  dlock run job -- sh -c 'echo "$DLOCK_FENCE" > "$0"; exec sleep 600' \
    "$BATS_TEST_TMPDIR/fence" 3>&- &
  eventually test -s "$BATS_TEST_TMPDIR/fence"

  assert_shows '.holders[0].fence' "$(< "$BATS_TEST_TMPDIR/fence")"
}

@test "the lock of a run is attached and does not expire" {
  hold job

  assert_shows '.holders[0] | "\(.attached) \(.expires_in_ms)"' 'true null'
}

@test "the label of a holder is shown" {
  hold job --label 'nightly backup'

  assert_shows '.holders[0].label' 'nightly backup'
  run dlock status job
  assert_output_contains 'nightly backup'
}

@test "the time of the grant is shown in UTC, whatever the time zone" {
  export TZ=Pacific/Kiritimati
  hold job

  run dlock status --json job

  assert_is_now "$(json '.holders[0].since')"
}

@test "the time for which a lock has been held grows" {
  hold job
  first=$(look job '.holders[0].held_ms')

  eventually is_held_longer "$first"
  (($(look job '.holders[0].held_ms') < 60000))
}

is_held_longer() { (($(look job '.holders[0].held_ms') >= $1 + 50)); }

@test "waiters are shown in the order of the queue" {
  hold job
  queue job -- true
  first=$waiter
  queue job -- true

  assert_shows '[.waiters[].pid] | join(" ")' "$first $waiter"
}

@test "a waiter is shown with the user, the host and the start of its wait" {
  hold job
  queue job -- true

  assert_shows '.waiters[0] | "\(.user) \(.host)"' "$user $host"
  assert_is_now "$(look job '.waiters[0].since')"
  assert_between "$(look job '.waiters[0].waiting_ms')" 0 60000
}

# --- The last run ---

@test "the last run is shown with its exit code and its duration" {
  dlock run job -- sh -c 'sleep 0.05; exit 3' || true

  assert_shows '.last_run | "\(.outcome) \(.exit_code) \(.signal) \(.host)"' \
    "ran 3 null $host"
  assert_between "$(look job .last_run.duration_ms)" 50 60000
}

@test "the start and end of the last run are shown in UTC" {
  TZ=Pacific/Kiritimati dlock run job -- true

  assert_is_now "$(look job .last_run.started)"
  assert_is_now "$(look job .last_run.ended)"
}

@test "the last run is shown with the signal that killed the command" {
  dlock run job -- sh -c 'kill -TERM $$' || true

  assert_shows '.last_run | "\(.outcome) \(.exit_code) \(.signal)"' 'ran null TERM'
}

@test "a last run that timed out is shown with the outcome timeout" {
  dlock run --timeout 50ms job -- sleep 600 || true

  assert_shows '.last_run | "\(.outcome) \(.exit_code)"' 'timeout 124'
}

# --- For people ---

@test "the first line of status says that the lock is held" {
  hold job

  run dlock status job

  assert_status 0
  assert_equal "${lines[0]}" 'job  held'
}

@test "the first line of status says that the lock is free" {
  run dlock status job

  assert_equal "$output" "job  free (never used), in $DLOCK_STORE"
}

@test "status shows who holds the lock and with which command" {
  hold job

  run dlock status job

  assert_output_contains "$user@$host"
  assert_output_contains "$holder"
  assert_output_contains "sh -c 'exec 3<>"
}

@test "status shows how the last run ended and how long it took" {
  dlock run job -- sh -c 'exit 3' || true

  run dlock status job

  wanted="^  last run: exit 3, [0-9.]+m?s ago, took [0-9.]+m?s on $host$"
  [[ ${lines[1]} =~ $wanted ]]
}

# Makes a logged run the last run: without the state of the lock, status relies on the log.
log_last_run() {  # <ended> <JSON of the other fields>
  dlock run job -- true
  rm -r "$store"/state-*
  printf '{"event":"end","namespace":"dlock","name":"job","fence":1,
    "started":"%s","ended":"%s",%s}' "$1" "$1" "$2" | tr -d '\n' > "$store/runs.jsonl"
  echo >> "$store/runs.jsonl"
}

@test "status shows durations like 3m12s" {
  log_last_run "$(date -u -d '-192 seconds' +%FT%T.000Z)" \
    '"duration_ms":97200000,"exit_code":0,"signal":null,"host":"h","outcome":"ran"'

  run dlock status job

  wanted='exit 0, 3m1[2-9]s ago, took 1d3h on h$'
  [[ ${lines[1]} =~ $wanted ]]
}

@test "a command's text cannot control the reader's terminal" {
  dlock run job -- sh -c 'exec sleep 600' $'\e]52;c;x\a\e[2J' $'a\nb\r' $'\xff\xfe' \
    $'\u202e\u2066' 3>&- &
  eventually is_held job

  dlock status job > "$BATS_TEST_TMPDIR/shown"

  is_harmless < "$BATS_TEST_TMPDIR/shown"
  grep -q '\\x1b' "$BATS_TEST_TMPDIR/shown"
}

@test "a command's text is valid JSON" {
  # shellcheck disable=SC1003
  dlock run job -- sh -c 'exec sleep 600' $'\e[2J' $'a\nb' $'\xff' $'\u202e' '"\' 3>&- &
  eventually is_held job

  run dlock status --json job

  assert_equal "$(json '.holders[0].command | length')" 8
  assert_equal "$(json '.holders[0].command[4]')" $'a\nb'
  # shellcheck disable=SC1003
  assert_equal "$(json '.holders[0].command[7]')" '"\'
}

@test "a forged log cannot control the reader's terminal" {
  log_last_run 2026-01-01T00:00:00.000Z '"duration_ms":1,"exit_code":null,
    "signal":"\u001b[31m","host":"\u001b[2J\u202e","outcome":"\u0007"'

  run dlock status job

  assert_output_contains 'last run'
  tr -d '\n' <<< "$output" | is_harmless
}

@test "a very long command is truncated for people" {
  dlock run job -- sh -c 'exec sleep 600' "$(printf 'long %.0s' {1..400})" 3>&- &
  eventually is_held job

  run dlock status job

  assert_output_contains ...
  ((${#output} < 500))
}

# --- Color ---

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

@test "output that cannot be written is reported in one line" {
  hold job

  run sh -c 'dlock status job > /dev/full'

  ((status > 1))
  assert_one_line
}
