#!/usr/bin/env bats
# What dlock says to those who typed what they know from elsewhere, or what is taken for
# something else than they meant; and that it says nothing to all others.
# shellcheck disable=SC2016  # commands are shells that expand for themselves

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

teardown() { kill_leftovers; }

# Asserts that a usage error says this.
assert_hint() {  # <message> <dlock's arguments>...
  run timeout 5 dlock "${@:2}" < /dev/null
  assert_status 64
  assert_equal "$output" "dlock: $1"
}

# Asserts that the command runs, and nothing is said.
assert_runs() {  # <dlock's arguments>...
  run timeout 5 dlock "$@"
  assert_equal "$status $output" '0 ran'
}

# --- A first word that is no verb ---

@test "who forgets the verb is told how to run a command" {
  assert_hint "unknown verb 'hello'; to run a command: dlock run hello -- COMMAND" hello
  assert_hint "unknown verb 'backup'; to run a command: dlock run backup -- COMMAND" backup -- ./backup.sh
}

@test "a verb that is only mistyped is still named" {
  assert_hint "unknown verb 'hlep': did you mean 'help'?" hlep
  assert_hint "unknown verb 'rnu': did you mean 'run'?" rnu job -- true
  assert_hint "unknown verb 'conf': did you mean 'config'?" conf
}

# --- Habits from flock(1) ---

@test "who gives a file as to flock is told that locks have names" {
  assert_hint "unknown verb '/var/lock/job.lock'; locks have names, not paths: dlock run job -- COMMAND" \
    /var/lock/job.lock ./job
  assert_hint "unknown verb './job'; locks have names, not paths: dlock run job -- COMMAND" ./job ./job
}

@test "who gives a descriptor as to flock is told of acquire" {
  assert_hint "unknown verb '9'; a script takes a lock by name: dlock acquire NAME --for-pid \$\$" 9
}

@test "who says -n or --nonblock as to flock is told that this is the default" {
  local option
  for option in -n --nonblock --nb -xn; do
    assert_hint "'$option' is not needed: dlock run NAME -- COMMAND does not wait unless --wait says so" \
      "$option" /tmp/x.lock cmd
  done
  assert_hint "'--nonblock' is not needed: dlock run NAME -- COMMAND does not wait unless --wait says so" \
    run --nonblock job -- true
}

@test "who says -c as to flock is told to name the shell" {
  assert_hint "'-c': dlock uses no shell; use dlock run NAME -- sh -c 'LINE'" -c 'echo hi'
  assert_hint "'-c': dlock uses no shell; use dlock run NAME -- sh -c 'LINE'" run job -c 'echo hi'
}

@test "who says -x or -u as to flock is told what takes their place" {
  assert_hint "'-x' is not needed: dlock run NAME -- COMMAND is exclusive unless --shared is said" -x job cmd
  assert_hint "'-u': dlock run releases the lock when the command ends, dlock release does so by hand" -u 9
}

@test "an option before the verb that is that of a verb is told so" {
  assert_hint "'-w' is an option of run: dlock run -w ..." -w 5 job cmd
  assert_hint "'--wait' is an option of run: dlock run --wait ..." --wait=5 run job -- true
  assert_hint "'--prometheus' is an option of list: dlock list --prometheus ..." --prometheus list
}

@test "a name behind -n is told to be no number, not that a command is missing" {
  assert_hint "--slots: 'name' is not a number (-n means --slots; not waiting is the default)" run -n name -- true
  assert_hint "--slots: 'name' is not a number (-n means --slots; not waiting is the default)" run -n name true x
  assert_hint "--wait: 'job' is not a duration: expected a number and ms, s, m, h or d, such as 5m or 1h30m" \
    run -w job true
}

@test "a path in the place of a store is told how a directory is named" {
  run dlock --store /tmp/locks list

  assert_status 78
  assert_output_contains 'did you mean local:/tmp/locks?'
}

# --- A duration in two words ---

@test "a duration in two words is noticed, but what was asked for is done" {
  local words
  for words in '--wait 5 min' '-w 5 min' '--wait=5 minutes' '-w5 m' '-vw 5 min'; do
    # shellcheck disable=SC2086
    run dlock run $words sh -c 'echo "$DLOCK_NAME"'

    assert_output_contains "is taken as the lock name; a duration is one word: --wait 5m"
    assert_output_contains "${words##* }"
  done
  run dlock run --timeout 1 hour true
  assert_equal "$output" "dlock: 'hour' is taken as the lock name; a duration is one word: --timeout 1h"
}

@test "a duration in two words that leaves a word too many is a usage error that says so" {
  assert_hint "unexpected argument 'job': a duration is one word: --wait 5m" acquire --wait 5 min job
}

@test "with --quiet nothing is said of a duration in two words" {
  assert_runs run -q --wait 5 min echo ran
}

@test "nothing is said where all is as it should be" {
  printf '#!/bin/sh\necho ran\n' > frob
  chmod +x frob

  assert_runs run name ./frob -- x
  assert_runs run --wait 5 name ./frob -- x
  assert_runs run min ./frob -- x
  assert_runs run -n 5 m ./frob
  assert_runs run -w 5s s ./frob
  assert_runs run --label 5 min ./frob
  assert_runs run --wait 5 -- min ./frob
}

# --- Variables ---

@test "a variable that is called like an option is told not to set it, once" {
  DLOCK_WAIT=5s run dlock run job -- echo ran

  assert_equal "$output" \
    "dlock: DLOCK_WAIT is not a variable of dlock; use --wait or the configuration file
ran"
}

@test "a mistyped variable names the one that was meant" {
  DLOCK_STROE=none: run dlock run job -- true

  assert_equal "$output" "dlock: DLOCK_STROE is not a variable of dlock: did you mean 'DLOCK_STORE'?"
}

@test "with --quiet nothing is said of a variable" {
  DLOCK_WAIT=5s DLOCK_CONFLICT_EXIT_CODE=3 assert_runs run -q job echo ran
}

@test "nothing is said of variables that dlock has set itself, in nested runs either" {
  : > config.toml
  DLOCK_PASSWORD=x assert_runs run --config config.toml --user me --password-file p --tls-insecure -q a \
    dlock run b dlock run -q c echo ran
}

@test "nothing is said of variables that others have a use for" {
  DLOCK_PORT=tcp://10.0.0.1:80 DLOCK_SERVICE_HOST=10.0.0.1 DLOCK_OUTCOME=ran DLOCK_REASON=x \
    DLOCK_EXIT_CODE=0 DLOCK_SIGNAL=TERM DLOCK_RAN_MS=1 DLOCK_HOLDER_HOST=x DLOCK_=x DLOCK=y \
    assert_runs run job echo ran
}

# --- help ---

@test "help prints what --help prints" {
  assert_equal "$(dlock help)" "$(dlock --help)"
  assert_equal "$(dlock help run)" "$(dlock run --help)"
  assert_equal "$(dlock help help)" "$(dlock help --help)"
}

@test "help needs no store and no configuration" {
  DLOCK_STORE=nonsense: DLOCK_CONFIG=/nonexistent run dlock help run

  assert_status 0
}

@test "help about a verb that there is not names the nearest" {
  assert_hint "unknown verb 'rnu': did you mean 'run'?" help rnu
  assert_hint "unknown verb 'frobnicate' (see dlock --help)" help frobnicate
  assert_hint "unexpected argument 'job' (usage: dlock help [VERB])" help run job
}
