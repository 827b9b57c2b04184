#!/usr/bin/env bats
# `dlock break`: which holders lose the lock, how their commands end, and when break asks.

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  mkfifo keys
}

# Runs a shell command on its own terminal, as terminal.bats does.
on_terminal() {  # <command for a shell>
  : > screen  # so that output of an earlier command is not taken for that of this one
  SHELL=/bin/sh TERM=dumb env --default-signal script -qec "$1" /dev/null <> keys > screen 3>&- &
  terminal=$!
}

press() { printf %s "$1" 1<> keys; }  # <keys>

appears() { grep -qF -- "$1" screen; }

fence_of() { look job ".holders[] | select(.pid == $1) | .fence"; }  # <pid>

reason_in() { jq -r .reason "$1"; }

# Runs a command and kills its dlock. Sets $command to the pid of the command.
orphan() {  # <name> <script>
  dlock run "$1" -- bash -c "$2"' echo $$ > pid; while :; do sleep 0.1; done' 3>&- &
  holder=$!
  eventually test -s pid
  command=$(< pid)
  # Until others can see the command in the store.
  eventually knows_command "$1"
  kill -KILL "$holder"
  eventually has_ended "$holder"
}

knows_command() { dlock status "$1"; }

@test "the lock stays held until the command has ended, which is killed if it ignores TERM" {
  dlock run job -- bash -c 'trap "" TERM; touch started; while :; do sleep 0.1; done' 3>&- &
  holder=$!
  eventually test -e started

  dlock break --yes job

  assert_exits 76 "$holder"

  rm started
  dlock run -t 10m -k 60s job -- bash -c 'trap ": > termed" TERM; : > started
    until [[ -e finish ]]; do sleep 0.05; done' 3>&- &
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

@test "--fence takes the slot of only this holder" {
  hold job --slots 2
  first=$holder
  hold job --slots 2
  second=$holder
  fence=$(fence_of "$first")

  dlock break --yes --fence "$fence" job

  assert_exits 76 "$first"
  assert_equal "$(look job '[.holders[].pid] | @csv')" "$second"
}

@test "break stops the command of the holder, whose dlock exits with 76 and reports broken, and -v and --json name it" {
  hold job --report report
  run dlock break --yes job
  assert_equal "$status $output" '0 '
  is_free job
  has_ended "$command"
  assert_exits 76 "$holder"
  assert_equal "$(reason_in report)" broken
  me=$(id -un)@$(uname -n)
  assert_equal "$(dlock history --json job | jq -r '.[0] | .reason, "\(.broken_by.user)@\(.broken_by.host)"')" broken$'\n'"$me"
  run dlock history job
  assert_output_contains "lost (broken by $me), exit 76"

  hold job
  run dlock -v break --yes job
  assert_status 0
  assert_output_contains "dlock: job: broken: $(id -un)@$(uname -n) (pid $holder, sh -c "

  hold job
  fence=$(fence_of "$holder")
  run dlock --json break --yes job
  assert_status 0
  assert_equal "$(json 'map(.fence) | @csv')" "$fence"
  assert_equal "$(json '.[0] | .pid, .attached')" "$holder"$'\n'true
}

@test "the question speaks of several commands, or of a holder without one" {
  hold job --slots 2
  hold job --slots 2
  dlock acquire lease > /dev/null

  on_terminal 'dlock break job; exec dlock break lease'

  eventually appears 'Stop these commands and take the lock? [y/N] '
  press $'\n'
  eventually appears 'Take the lock from this holder? [y/N] '
  press $'\n'
  assert_exits 1 "$terminal"
}

@test "break takes several names and patterns, and goes on if one is not held" {
  hold deploy-a
  first=$holder
  hold deploy-b
  hold 'star*'
  kept=$holder
  hold job

  run dlock break --yes --json 'deploy-*' job job free
  assert_status 1
  assert_equal "${lines[0]}" 'dlock: free: not held in local:'"$BATS_TEST_TMPDIR/store"
  assert_equal "$(jq -r 'map(.name) | join(" ")' <<< "${lines[-1]}")" 'job deploy-a deploy-b'
  assert_exits 76 "$first"
  assert_exits 76 "$holder"
  run dlock break --yes 'x*' 'y?'
  assert_status 1
  assert_equal "${lines[1]}" 'dlock: no lock that matches y? is held in local:'"$BATS_TEST_TMPDIR/store"
  run dlock break --yes 'star\*'
  assert_equal "$status $output" '0 '
  assert_exits 76 "$kept"
  run dlock break --yes --fence 7 a b
  assert_equal "$status $output" '64 dlock: --fence is that of one lock: name only that one'
}

@test "break --host takes all locks that are held on that host, and those of no other" {
  run dlock break --yes
  assert_message 64 '--host H'
  hold deploy-a
  first=$holder
  hold '*'
  every=$holder
  hold 'star*'
  here=$(look 'star*' '.holders[0].host')
  run dlock break --yes --host "not-$here"
  assert_message 1 "is held by host not-$here in local:"
  run dlock break --yes --host "not-$here" 'star*'
  assert_status 1
  refute has_ended "$first"

  run dlock break --yes --json --host "$here"

  assert_status 0
  assert_equal "$(jq -r 'map(.name) | join(" ")' <<< "${lines[-1]}")" '* deploy-a star*'
  assert_exits 76 "$every"
  assert_exits 76 "$first"
  assert_exits 76 "$holder"
}

@test "of several locks, break shows one table and asks once, and takes them only from those shown" {
  hold a --label nightly
  first=$holder
  hold b
  on_terminal 'exec dlock break "[ab]"'
  eventually appears 'Stop these commands and take the locks? [y/N] '
  grep -qE '^LOCK +HOLDER +PID +FOR +FENCE +LABEL +COMMAND' screen
  grep -qE "^a +[^ ]+ +$first +[^ ]+ +[0-9]+ +nightly +sh -c " screen
  let_go
  eventually has_ended "$holder"
  hold b

  press $'y\n'

  assert_exits 1 "$terminal"
  assert_exits 76 "$first"
  refute has_ended "$holder"
  appears 'dlock: b: no longer held by fence '
}

@test "what cannot be broken exits with 1, 64 or 78, and breaks nothing" {
  run dlock break --yes job
  assert_status 1
  refute test -e store

  dlock run job -- true
  run dlock break --yes job
  assert_equal "$status $output" "1 dlock: job: not held in $DLOCK_STORE"

  hold job
  run dlock break --yes --fence 7000 job
  assert_equal "$status $output" "1 dlock: job: not held by fence 7000 in $DLOCK_STORE"
  for fence in 0 x '' 1.5 99999999999999999999999; do
    run dlock break --yes "--fence=$fence" job
    assert_message 64
  done
  run dlock break job < /dev/null
  assert_message 64 --yes
  # The store knows who is alive.
  run dlock break --force --yes job
  assert_message 78 'break without --force stops them'
  refute has_ended "$holder"
  is_held job
}

@test "on a terminal, break shows the holder, and y breaks its lease, and any other answer nothing" {
  hold job
  for answer in $'\n' $'yellow\n' $'\004'; do
    on_terminal 'exec dlock break job'
    eventually appears '[y/N] '
    press "$answer"
    assert_exits 1 "$terminal"
    appears 'dlock: job: cancelled'
  done
  refute has_ended "$holder"
  is_held job

  on_terminal 'exec dlock break job'
  eventually appears 'Stop this command and take the lock? [y/N] '
  appears "held by $(id -un)@$(uname -n) (pid $holder, sh -c "
  press $'y\n'
  assert_exits 0 "$terminal"
  assert_exits 76 "$holder"

  hold job
  on_terminal 'exec dlock break --yes job'
  assert_exits 0 "$terminal"
  refute appears '[y/N]'
}

@test "if all holders have released since the question, the message names the first" {
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

@test "Ctrl-C ends the wait for a stopped holder, which stays broken" {
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

@test "break stops a command whose dlock was killed, though it ignores TERM" {
  orphan job 'trap "" TERM;'

  eventually dlock break --yes job

  has_ended "$command"
  is_free job
}

@test "break ends the straggler of a command that was killed along with its dlock" {
  orphan job '(while :; do sleep 0.1; done) & echo $! > left;'
  kill -KILL "$command"
  eventually has_ended "$command"
  is_held job

  dlock break --yes job

  has_ended "$(< left)"
  is_free job
}

@test "break exits with 77 if it may not stop a command whose dlock was killed" {
  needs_root
  chmod 711 . "$BATS_FILE_TMPDIR"
  mkdir -m 2770 shared
  chgrp nogroup shared
  export DLOCK_STORE=local:$PWD/shared
  umask 007
  orphan job ''

  run setpriv --reuid nobody --regid nogroup --clear-groups dlock break --yes job

  assert_message 77
  refute has_ended "$command"
}
