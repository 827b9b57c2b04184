#!/usr/bin/env bats
# dlock list: all locks at a glance.

setup() {
  load support
  use_private_store
  store=$BATS_TEST_TMPDIR/store
}

names() { jq -r '[.[].name] | join(" ")'; }

dlock_on() {  # <host> <argument>...
  unshare --uts sh -c 'printf %s "$0" > /proc/sys/kernel/hostname; exec "$@"' "$1" dlock "${@:2}"
}

# Runs a command under each lock, so that it has a last run.
used() {
  local name
  for name; do dlock run "$name" -- true; done
}

@test "locks that are held or were used are listed by name, those that match a pattern, and --held omits free ones" {
  run dlock list --json
  assert_equal "$status $output" '0 []'
  [[ ! -e $store ]]
  used web-2 c B 10 web-1 9
  hold job

  assert_equal "$(dlock list --json | names)" '10 9 B c job web-1 web-2'
  assert_equal "$(dlock list --json 'web-*' | names)" 'web-1 web-2'
  assert_equal "$(dlock list --json web-1 | names)" 'web-1'
  assert_equal "$(dlock list --json --held | names)" job
  assert_equal "$(dlock list --json 'nothing-*')" '[]'
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
    assert_message 64
  done
}
