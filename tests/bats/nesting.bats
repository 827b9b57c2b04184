#!/usr/bin/env bats
# Nested runs: a lock that an outer run holds is refused at once, instead of a deadlock.

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

# Runs dlock for at most 10 s, and sets $status to its exit code and $output to its output.
run_briefly() {
  status=0
  timeout -s KILL 60 dlock "$@" > output 2>&1 < /dev/null 3>&- || status=$?
  output=$(< output)
}

# Asserts that the inner run was refused because of an outer one, and ran no command.
assert_refused_inside() {
  assert_message 75 'held by an outer run'
  refute test -e inner
}

@test "the same lock inside itself is refused at once with 75, and the message says why" {
  run_briefly run job -- dlock run job -- touch inner
  assert_refused_inside
  run_briefly run job -- dlock run other -- dlock run -w forever job -- touch inner
  assert_refused_inside
  # From a shell, in another directory, with parts of DLOCK_HELD that make no sense.
  run_briefly run 'a b=c%20 d' -- sh -c 'cd / && DLOCK_HELD="nonsense $DLOCK_HELD x=" dlock run -w forever "a b=c%20 d" -- touch inner'
  assert_refused_inside
}

@test "with --spread, a slot inside a run of the same lock is refused at once, whoever else holds one" {
  dlock run --slots 3 job -- sleep 30 3>&- &
  eventually dlock status job

  run_briefly run --slots 3 job -- dlock run --slots 3 --spread --wait forever job -- touch inner

  assert_refused_inside
}

@test "inside, -E, -q and the report are as for any lock that is held, and the outer run goes on with its lock" {
  run_briefly run job -- dlock run -w forever -E 9 job -- true
  assert_status 9
  run_briefly run job -- dlock run -w forever -E 0 job -- true
  assert_equal "$status $output" '0 '
  run_briefly run job -- sh -c 'dlock run -q --report report job -- true; echo "$?"; dlock status job > /dev/null; echo "$?"'
  assert_equal "$output" $'75\n0'
  assert_equal "$(jq -r '.outcome, .message' report)" $'busy\nheld by an outer run'
}

@test "other locks work inside, and the same name in another namespace or store, or on none:" {
  run_briefly run job -- dlock run b -- dlock --namespace other run job -- dlock run d -- \
    dlock --store "local:$PWD/other" run job -- dlock --store none: run job -- dlock --store none: run job -- echo inner

  assert_equal "$status $output" '0 inner'
}

@test "the line that the manual has for the top of a script locks it once, even one that an earlier run left behind" {
  local line
  line=$(grep -m 1 '|| exec dlock run .*nightly-report' "$DLOCK_SOURCE/man/dlock-run.1")
  printf '%s\n' '#!/bin/sh' "$line" 'echo "$1 begins" >> log' 'echo "$1 ends" >> log' > nightly
  chmod +x nightly
  mkfifo fifo
  exec {gate}<> fifo

  ./nightly alone
  assert_equal "$(paste -sd ' ' log)" 'alone begins alone ends'

  # A daemon of an earlier run has its environment, and starts the script while another run has the lock.
  dlock run nightly-report -- sh -c 'setsid sh -c "read -r _ < fifo; ./nightly left-behind; echo \$? > status" > said 2>&1 3>&- &'
  hold nightly-report
  echo >&"$gate"
  eventually test -s status
  assert_equal "$(< status)" 75
  refute grep -q left-behind log
  let_go
}

@test "a straggler of an outer run can take its lock again, or waits for the next holder" {
  straggle='(until [ -e over ]; do sleep 0.05; done; dlock run -w forever job -- touch inner) &'
  dlock run job -- sh -c "$straggle"
  touch over
  eventually test -e inner

  rm over inner
  dlock run -w forever job -- sh -c "$straggle"
  hold job -w forever
  touch over
  eventually somebody_waits job
  let_go
  eventually test -e inner
}

@test "the same lock is refused at once inside a run whose dlock was killed" {
  dlock run job -- sh -c '
    touch started
    until [ -e go ]; do sleep 0.05; done
    dlock run -w forever job -- true; echo "$?" > inner' 2> /dev/null 3>&- &
  eventually test -e started
  kill -KILL $!
  eventually has_ended $!

  touch go

  eventually test -s inner
  assert_equal "$(< inner)" 75
}
