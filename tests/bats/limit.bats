#!/usr/bin/env bats
# Rate limits: which callers are admitted, how waiters get their turn, and what runs then.

setup() {
  load support
  load ../faults/rates
  use_private_store
}

# --- Without a command ---

@test "the limit admits as many as the rate allows, and no more; -q and --json say it their way" {
  run dlock limit api 2/1h
  assert_equal "$status $output" '0 '
  run dlock limit api 2/1h
  assert_equal "$status $output" '0 '

  run dlock limit api 2/1h

  assert_message 75
  [[ $output =~ ^'dlock: api: rate exceeded (2/1h): next turn in 59m'[1-5]?[0-9]s$ ]]

  dlock limit quiet 1/1h

  run dlock limit -q quiet 1/1h

  assert_equal "$status $output" '75 '

  run dlock limit --json other 2/1h
  assert_equal "$output" '{"admitted":true,"remaining":1,"retry_in_ms":0}'

  run dlock limit --json other 2/1h
  assert_equal "$(json '.admitted, .remaining')" $'true\n0'
  assert_between "$(json .retry_in_ms)" 3590000 3600000

  run dlock limit --json -q other 2/1h
  assert_status 75
  assert_equal "$(json '.admitted, .remaining')" $'false\n0'
  assert_between "$(json .retry_in_ms)" 3590000 3600000
}

# --- A command ---

@test "a command runs only if it is admitted, and its end, or that it cannot be run, decides the exit code" {
  run dlock limit api 1/1h -- sh -c 'echo "$1"; exit 3' - 'some  words'
  assert_equal "$status $output" '3 some  words'

  run dlock limit -q api 1/1h -- touch "$ran"
  assert_status 75
  [[ ! -e $ran ]]

  run sh -c 'dlock limit a 1/1h -- "$1"; echo "exit $?"' - "$BATS_TEST_TMPDIR/nothing"
  assert_output_contains 'exit 127'
  touch "$ran"
  run dlock limit b 1/1h -- "$ran"
  assert_status 126

  run dlock limit c 1/1h -- sh -c 'kill -TERM $$'
  assert_status 143

  run dlock limit d 1/1h echo --json -w
  assert_equal "$status $output" '0 --json -w'

  run dlock limit --json e 1/1h -- echo ran
  assert_equal "$output" "$(printf '%s\n' '{"admitted":true,"remaining":0,"retry_in_ms":3600000}' ran)"
}

@test "a signal is forwarded to the command, which gets the environment unchanged, without secrets" {
  dlock limit api 1/1h -- sh -c 'trap "exit 9" TERM; echo > "$1"; while :; do sleep 0.1; done' - "$ran" 3>&- &
  eventually test -s "$ran"

  kill -TERM $!

  assert_exits 9 $!

  DLOCK_PASSWORD=hush DLOCK_TOKEN=hush DLOCK_NAME=outer run dlock limit other 1/1h -- env
  refute_output_contains hush
  assert_output_contains DLOCK_NAME=outer
  refute_output_contains DLOCK_FENCE
  refute_output_contains DLOCK_NAMESPACE
}

# --- Waiting ---

@test "a signal ends the wait at once, dlock ends by that signal, its command does not run, and its turn is given up" {
  dlock limit api 1/1h
  await_turn api 1/1h
  run dlock limit --json -q api 1/1h
  assert_between "$(json .retry_in_ms)" 3600001 7200000

  kill -TERM "$waiter"

  assert_exits 143 "$waiter"
  run dlock limit --json -q api 1/1h
  assert_between "$(json .retry_in_ms)" 0 3600000

  # Ctrl-C as well.
  : > "$BATS_TEST_TMPDIR/api.said"
  env --default-signal=INT dlock limit -v -w forever api 1/1h -- touch "$ran" \
    2> "$BATS_TEST_TMPDIR/api.said" 3>&- &
  waiter=$!
  eventually has_turn api
  kill -INT "$waiter"
  assert_exits 130 "$waiter"
  [[ ! -e $ran ]]
}

# --- --show and --reset ---

@test "--show prints the rate, what is left and the waiters, and changes nothing" {
  run dlock limit --show api --
  assert_status 0
  run dlock limit api --show
  assert_equal "$status $output" "0 api: not in use in $DLOCK_STORE"
  run dlock limit api --show --json
  assert_equal "$output" '{"name":"api","rate":null,"remaining":null,"retry_in_ms":null,"waiters":[]}'

  dlock limit api 2/1h
  for _ in 1 2; do
    run dlock limit --show api
    assert_equal "$status $output" '0 api: 2/1h, 1 remaining'
  done
  dlock limit api 2/1h
  dlock limit --wait 2h api 2/1h &
  pid=$!
  eventually waits_for_a_turn api
  run dlock limit api --show --json
  assert_equal "$(json '.rate, .remaining, .waiters[0].host, .waiters[0].pid')" "2/1h
0
$(uname -n)
$pid"
  assert_between "$(json .retry_in_ms)" 3500000 7200000
  assert_between "$(json '.waiters[0].retry_in_ms')" 3500000 3600000
  run dlock limit api --show
  assert_output_contains "  waiting: $(uname -n), pid $pid, turn in "
  kill "$pid"
  wait "$pid" || true
}

waits_for_a_turn() { dlock limit "$1" --show | grep -q waiting; }

@test "a different rate for a name in use is a configuration error that names both, until --reset forgets the limit" {
  dlock limit api 2/1h

  run dlock limit api 3/1h
  assert_status 78
  assert_output_contains 'dlock: api: in use with 2/1h, not 3/1h'
  run dlock limit -w 10s api 2/90m
  assert_status 78
  assert_output_contains 'in use with 2/1h, not 2/90m'

  run dlock limit api --reset
  assert_equal "$status $output" '0 '
  dlock limit api 4/1h
  run dlock limit never-used --reset
  assert_equal "$status $output" '0 '
}
