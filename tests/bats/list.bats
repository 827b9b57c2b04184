#!/usr/bin/env bats
# dlock list: all locks at a glance.
# shellcheck disable=SC2016  # scripts for others
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load support
  load ../faults/locks
  use_private_store
  store=$BATS_TEST_TMPDIR/store
}

teardown() { kill_leftovers; }

names() { jq -r '[.[].name] | join(" ")'; }

dlock_on() {  # <host> <argument>...
  unshare --uts sh -c 'printf %s "$0" > /proc/sys/kernel/hostname; exec "$@"' "$1" dlock "${@:2}"
}

# Runs a command under each lock, so that it has a last run.
used() {
  local name
  for name; do dlock run "$name" -- true; done
}

# --- Which locks ---

@test "a lock that is held is listed" {
  hold job

  assert_equal "$(dlock list --json | names)" job
}

@test "a lock that only has a last run is listed" {
  used job

  assert_equal "$(dlock list --json | names)" job
}

@test "names that look alike are told apart by what is escaped" {
  local e=$'e\xcc\x81' o=$'\xd0\xbe'
  used "caf$e" $'caf\xc3\xa9' job "j${o}b" $'a\xc2\xa0b' 'a b' $'\xe2\x84\xaaelvin' 'Größe данные'

  run dlock list
  local shown
  for shown in 'cafe\xcc\x81 ' 'café ' 'job ' 'j\xd0\xbeb ' 'a\xc2\xa0b ' 'a b ' '\xe2\x84\xaaelvin ' \
    'Größe данные '; do
    assert_output_contains $'\n'"$shown"
  done
  run dlock history
  assert_output_contains ' j\xd0\xbeb '
  run dlock status "j${o}b"
  assert_output_contains 'j\xd0\xbeb  free'
}

@test "a lock that has only a waiter is listed" {
  hold job
  queue job -- true
  kill -STOP "$waiter"
  kill -KILL "$holder" "$command"

  eventually is_waited_for_only
}

is_waited_for_only() {
  [[ $(dlock list --json | jq -r '.[] | "\(.name) \(.state) \(.waiters | length)"') == \
    'job free 1' ]]
}

@test "a lock whose command never started is not listed" {
  dlock run job -- /no/such/command || true

  assert_equal "$(dlock list --json)" '[]'
}

@test "if no lock is found, a message on standard error says so" {
  run dlock list
  assert_equal "$status $output" "0 dlock: no locks in local:$store"
  run bash -c 'dlock list 2> /dev/null'
  assert_equal "$status $output" '0 '
  run dlock list -q
  assert_equal "$status $output" '0 '
  used job
  run dlock list 'web-*'
  assert_equal "$status $output" "0 dlock: no locks that match web-* in local:$store"
  run dlock list --held
  assert_equal "$status $output" "0 dlock: no locks are held in local:$store"
}

@test "--held omits free locks" {
  used free
  hold job

  assert_equal "$(dlock list --json --held | names)" job
  run dlock list --held
  refute_output_contains free
}

@test "--sort age lists held locks first, the longest held first, then free ones, the latest run first" {
  used a b
  hold d
  hold c

  assert_equal "$(dlock list --json | names)" 'a b c d'
  assert_equal "$(dlock list --json --sort age | names)" 'd c b a'
  assert_equal "$(dlock list --json --sort name | names)" 'a b c d'
}

@test "--host, --owner, --mine and --label choose locks by one of their holders or waiters" {
  needs_root
  hold other --label import
  hold mine --label deploy-web
  dlock_on web1 acquire --label deploy-db theirs
  dlock_on web1 run -w 60s --label deploy-x other -- true 3>&- &
  eventually somebody_waits other
  used free
  local user
  user=$(id -un)

  assert_equal "$(dlock list --json --host web1 | names)" 'other theirs'
  assert_equal "$(dlock list --json --held --host web1 | names)" theirs
  assert_equal "$(dlock list --json --mine | names)" 'mine other'
  assert_equal "$(dlock list --json --owner "$user" | names)" 'mine other theirs'
  assert_equal "$(dlock list --json --label 'deploy-*' '[mo]*' | names)" 'mine other'
  assert_equal "$(dlock list --json --label 'deploy-*' --host "$(uname -n)" | names)" mine
  assert_equal "$(dlock list --json --owner stranger | names)" ''
  run dlock list --label '*' --owner stranger
  assert_equal "$status $output" "0 dlock: no such locks in local:$store"
  for wrong in '--mine --host x' '--mine --owner x' '--host=' '--label='; do
    # shellcheck disable=SC2086  # words
    run dlock list $wrong
    assert_status 64
    assert_one_line
  done
}

@test "an unknown order is a usage error" {
  run dlock list --sort size

  assert_status 64
  assert_one_line
}

@test "list --json prints an empty array if there are no locks" {
  run dlock list --json

  assert_equal "$status $output" '0 []'
}

@test "list does not create the store" {
  dlock list

  [[ ! -e $store ]]
}

@test "locks are sorted by name" {
  used b c a B 10 9

  assert_equal "$(dlock list --json | names)" '10 9 B a b c'
}

@test "a pattern chooses locks" {
  used web-1 web-2 db

  assert_equal "$(dlock list --json 'web-*' | names)" 'web-1 web-2'
}

@test "a pattern without wildcards is a name" {
  used job job2

  assert_equal "$(dlock list --json job | names)" job
}

@test "a pattern that matches no lock prints nothing on standard output and exits with 0" {
  used job

  run bash -c "dlock list 'web-*' 2> /dev/null"

  assert_equal "$status $output" '0 '
}

@test "two patterns are a usage error" {
  run dlock list a b

  assert_status 64
  assert_one_line
}

# --- For programs ---

@test "list --json prints each lock as status --json does" {
  used job
  hold job --label nightly
  queue job -- true
  without_times='del(.holders[].held_ms, .waiters[].waiting_ms)'

  run dlock list --json

  assert_equal "$(json ".[0] | $without_times | tojson")" \
    "$(look job "$without_times | tojson")"
}

@test "list --json prints one line" {
  used a b

  run dlock list --json

  assert_equal "${#lines[@]}" 1
}

# --- For people ---

@test "the list has a header and one line per lock" {
  used a b

  run dlock list

  assert_equal "${#lines[@]}" 3
  assert_equal "${lines[0]}" 'LOCK  STATE  HOLDER  FOR  WAITING  LAST RUN'
}

@test "the list shows the holder of a lock and the number of waiters" {
  hold job
  queue job -- true
  queue job -- true

  run dlock list

  wanted="^job +held +$(id -un)@$(uname -n) +[0-9.]+m?s +2 +-$"
  [[ ${lines[1]} =~ $wanted ]]
}

@test "the list shows how last runs ended" {
  dlock run code -- sh -c 'exit 3' || true
  dlock run signal -- sh -c 'kill -TERM $$' || true
  dlock run time --timeout 50ms -- sleep 600 || true

  run dlock list

  [[ ${lines[1]} =~ ^'code  '.*'exit 3, '.*' ago'$ ]]
  [[ ${lines[2]} =~ ^'signal  '.*'killed by SIGTERM, '.*' ago'$ ]]
  [[ ${lines[3]} =~ ^'time  '.*'timeout, exit 124, '.*' ago'$ ]]
}

@test "the list shows shared locks and slots" {
  hold book -s
  hold book -s
  hold pool -n 3

  run dlock list

  [[ ${lines[1]} =~ ^'book  shared '.*' +1 ' ]]
  [[ ${lines[2]} =~ ^'pool  1/3 held ' ]]
}

@test "the list has no color if the output is not a terminal" {
  used job

  run dlock list

  refute_output_contains $'\e'
}

@test "the list has color on a terminal" {
  used job

  run env TERM=xterm script -qec 'dlock list' /dev/null

  assert_output_contains $'\e['
}

@test "listing twenty thousand locks takes only seconds" {
  used job
  rm -r "$store"/state-*
  line=$(tail -n 1 "$store/runs.jsonl")
  yes "$line" | head -n 20000 | awk '{ sub(/"job"/, "\"job" NR "\""); print }' \
    >> "$store/runs.jsonl"

  run timeout 60 dlock list

  assert_equal "$status ${#lines[@]}" '0 20002'
}
