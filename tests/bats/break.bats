#!/usr/bin/env bats
# Taking a lock from its holders: whom it is taken from, how they end, and who is asked.
# shellcheck disable=SC2016  # the commands' own variables
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load support
  load ../faults/locks
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  mkfifo keys
}

teardown() { kill_leftovers; }

refute() { ! "$@"; }

# Runs a shell's command on a terminal of its own, as terminal.bats does.
on_terminal() {  # <command for a shell>
  : > screen # at once: nothing from before may be taken for its own
  SHELL=/bin/sh TERM=dumb env --default-signal script -qec "$1" /dev/null <> keys > screen 3>&- &
  terminal=$!
}

press() { printf %s "$1" 1<> keys; }  # <keys>

appears() { grep -qF -- "$1" screen; }

fence_of() { look job ".holders[] | select(.pid == $1) | .fence"; }  # <pid>

reason_in() { jq -r .reason "$1"; }

# Waits until the dlock of a holder is told of things at once, and not only after its first
# second.
until_it_watches() {  # <pid>
  eventually watches_files "$1"
}

watches_files() { grep -qs inotify "/proc/$1"/fdinfo/*; }

# Leaves a command without its dlock. Sets $command to its pid.
orphan() {  # <name> <script>
  dlock run "$1" -- bash -c "$2"' echo $$ > pid; while :; do sleep 0.05; done' 3>&- &
  holder=$!
  eventually test -s pid
  command=$(< pid)
  # Once it is known to whoever asks.
  eventually knows_command "$1"
  kill -KILL "$holder"
  eventually has_ended "$holder"
}

knows_command() { dlock status "$1"; }

@test "the command of a broken holder ends, and its dlock exits with 76 for that reason" {
  hold job --report report

  run dlock break --yes job

  assert_status 0
  assert_exits 76 "$holder"
  has_ended "$command"
  assert_equal "$(reason_in report)" broken
}

@test "break says nothing when all went well" {
  hold job

  run dlock break --yes job

  assert_status 0
  assert_equal "$output" ''
}

@test "break returns when the lock is free" {
  hold job

  dlock break --yes job

  is_free job
  has_ended "$command"
}

@test "a run of more than a second is told at once" {
  hold job
  until_it_watches "$holder"
  begin=$(now_ms)

  dlock break --yes job

  assert_between $(($(now_ms) - begin)) 0 900
}

@test "the lock stays held until the command has ended" {
  dlock run -k 60s job -- bash -c 'trap "touch termed" TERM; touch started
    until [[ -e finish ]]; do sleep 0.02; done' 3>&- &
  eventually test -e started
  queue job -- touch next

  dlock break --yes job &
  eventually test -e termed

  is_held job
  refute test -e next
  touch finish
  eventually test -e next
  assert_exits 0 $!
}

@test "a command that ignores TERM is killed" {
  dlock run job -- bash -c 'trap "" TERM; touch started; while :; do sleep 0.05; done' 3>&- &
  holder=$!
  eventually test -e started

  dlock break --yes job

  assert_exits 76 "$holder"
}

@test "break looks for holders, not for waiters: the next in line is granted the lock" {
  hold job
  queue job -- sh -c 'touch next; exec sleep 60'

  dlock break --yes job

  eventually test -e next
  refute has_ended "$waiter"
}

@test "--min-hold does not keep a lock that was broken" {
  hold job --min-hold 1h

  dlock break --yes job

  is_free job
}

@test "a lock that is held on for --min-hold is freed at once" {
  dlock run --min-hold 1h job -- true
  is_held job

  dlock break --yes job

  is_free job
}

@test "who waits for a lock that is held on gets it when that is broken" {
  dlock run --min-hold 1h job -- true
  queue job -- touch next

  dlock break --yes job

  EVENTUALLY_MS=900 eventually test -e next
}

@test "without --fence all who share a lock lose it" {
  hold job --shared
  first=$holder
  hold job --shared
  second=$holder

  dlock break --yes job

  assert_exits 76 "$first"
  assert_exits 76 "$second"
}

@test "--fence takes a slot from that holder alone" {
  hold job --slots 2
  first=$holder
  hold job --slots 2
  second=$holder
  fence=$(fence_of "$first")

  dlock break --yes --fence "$fence" job

  assert_exits 76 "$first"
  assert_equal "$(look job '[.holders[].pid] | @csv')" "$second"
}

@test "a fence that nobody holds is 1, and nothing happens" {
  hold job

  run dlock break --yes --fence 7 job

  assert_status 1
  assert_equal "$output" 'dlock: job: not held by fence 7'
  refute has_ended "$holder"
  is_held job
}

@test "a lock that nobody holds is 1" {
  dlock run job -- true

  run dlock break --yes job

  assert_status 1
  assert_equal "$output" 'dlock: job: not held'
}

@test "a store that nobody has used is 1 and stays as it is" {
  run dlock break --yes job

  assert_status 1
  refute test -e store
}

@test "none: holds nothing" {
  run dlock --store none: break --yes job

  assert_status 1
}

@test "what is no fence is 64" {
  for fence in 0 -1 x '' 1.5 99999999999999999999999; do
    run dlock break --yes "--fence=$fence" job
    assert_status 64
    assert_one_line
  done
}

@test "without a terminal it wants --yes" {
  hold job

  run dlock break job < /dev/null

  assert_status 64
  assert_one_line
  assert_output_contains --yes
  refute has_ended "$holder"
}

@test "-v says whom the lock was taken from" {
  hold job

  run dlock -v break --yes job

  assert_status 0
  assert_output_contains "dlock: job: broken: $(id -un)@$(uname -n) (pid $holder, sh -c "
}

@test "--json prints those whom the lock was taken from" {
  hold job
  fence=$(fence_of "$holder")

  run dlock --json break --yes job

  assert_status 0
  assert_equal "$(json 'map(.fence) | @csv')" "$fence"
  assert_equal "$(json '.[0] | .pid, .attached')" "$holder"$'\n'true
}

@test "on a terminal it shows who has the lock, and y takes it" {
  hold job
  on_terminal 'exec dlock break job'
  eventually appears 'Take the lock from this holder? [y/N] '
  appears "held by $(id -un)@$(uname -n) (pid $holder, sh -c "

  press $'y\n'

  assert_exits 0 "$terminal"
  assert_exits 76 "$holder"
}

@test "on a terminal anything but a yes leaves all as it is" {
  hold job
  for answer in $'\n' $'n\n' $'yellow\n' $'\004'; do
    on_terminal 'exec dlock break job'
    eventually appears '[y/N] '

    press "$answer"

    assert_exits 1 "$terminal"
    appears 'not broken'
  done
  refute has_ended "$holder"
  is_held job
}

@test "on a terminal --yes asks nothing" {
  hold job

  on_terminal 'exec dlock break --yes job'

  assert_exits 0 "$terminal"
  refute appears '[y/N]'
}

@test "who was granted the lock after the question keeps it" {
  hold job
  shown=$(fence_of "$holder")
  on_terminal 'exec dlock break job'
  eventually appears '[y/N] '
  let_go
  eventually has_ended "$holder"
  hold job

  press $'y\n'

  assert_exits 1 "$terminal"
  refute has_ended "$holder"
  appears "dlock: job: no longer held by fence $shown"
}

@test "if all holders have gone since the question, it says so of the first" {
  hold job -s
  shown=$(fence_of "$holder")
  others=$holder
  hold job -s
  on_terminal 'exec dlock break job'
  eventually appears '[y/N] '
  for holder in "$others" "$holder"; do
    let_go "$holder"
    eventually has_ended "$holder"
  done

  press $'y\n'

  assert_exits 1 "$terminal"
  appears "dlock: job: no longer held by fence $shown and 1 more"
}

@test "Ctrl-C ends the wait for a holder that does not end, which stays broken" {
  hold job
  kill -STOP "$holder"
  on_terminal 'exec dlock break --yes job'
  eventually is_marked job

  press $'\003'

  assert_exits 130 "$terminal"
  kill -CONT "$holder"
  assert_exits 76 "$holder"
}

is_marked() { dlock status "$1" | grep -qF '(broken)'; }

@test "a command whose dlock was killed is ended" {
  orphan job ''

  run dlock break --yes job

  assert_status 0
  has_ended "$command"
  is_free job
}

@test "what a dead command has left is ended where its dlock was killed, too" {
  orphan job '(while :; do sleep 0.05; done) & echo $! > left;'
  kill -KILL "$command"
  eventually has_ended "$command"
  is_held job

  dlock break --yes job

  has_ended "$(< left)"
  is_free job
}

@test "a command that ignores TERM is killed where its dlock was killed, too" {
  orphan job 'trap "" TERM;'

  EVENTUALLY_MS=20000 eventually dlock break --yes job

  has_ended "$command"
}

@test "a command that may not be ended where its dlock was killed is 77" {
  needs_root
  chmod 711 . "$BATS_FILE_TMPDIR"
  mkdir -m 2770 shared
  chgrp nogroup shared
  export DLOCK_STORE=local:$PWD/shared
  umask 007
  orphan job ''

  run setpriv --reuid nobody --regid nogroup --clear-groups dlock break --yes job

  assert_status 77
  assert_one_line
  refute has_ended "$command"
}

