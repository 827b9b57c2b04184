#!/usr/bin/env bats
# Runs that replace others, give way to newer ones, or do not join a long queue. This file is
# run once for each kind of store.

setup() {
  load support
  export -f has_ended  # for commands that check whether another one has ended
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

on_server() { [[ $DLOCK_STORE == redis* ]]; }

outcome_in() { jq -r '"\(.outcome) \(.reason)"' "$1"; }

@test "of eight waiters that supersede each other, only the newest runs" {
  hold job
  local number pids=()
  for number in {1..8}; do
    dlock run --wait 60s --supersede -q job -- sh -c 'echo "$1" >> ran' - "$number" 3>&- &
    pids+=($!)
    eventually is_queued job "$!"
  done
  assert_equal "$(look job '.waiters | length')" 1

  let_go

  assert_exits 0 "${pids[-1]}"
  for number in {0..6}; do assert_exits 75 "${pids[number]}"; done
  assert_equal "$(< ran)" 8
}

# --max-queue

# --supersede

@test "a waiter with --supersede gives way to a newer one and names it, or is silent with -E 0" {
  hold job
  dlock run --wait 60s --supersede --report report job -- touch older 2> said 3>&- &
  older=$!
  eventually is_queued job "$older"

  queue job --supersede -- touch newer

  assert_exits 75 "$older"
  assert_equal "$(but_for_wait said)" "dlock: job: superseded by a newer run ($(uname -n), pid $waiter)"
  assert_equal "$(outcome_in report)" 'superseded null'
  let_go
  assert_exits 0 "$waiter"
  test -e newer
  refute test -e older

  hold job
  dlock run --wait 60s --supersede -E 0 job -- true 2> said 3>&- &
  older=$!
  eventually is_queued job "$older"

  queue job --supersede -- true

  assert_exits 0 "$older"
  assert_equal "$(< said)" ''
}

# --replace

@test "--replace stops the command of the holder and then runs" {
  hold job --report report
  dlock run --wait 60s --replace job -- bash -c 'has_ended "$1" && touch ran' - "$command" 3>&- &
  replacer=$!

  assert_exits 76 "$holder"
  assert_exits 0 "$replacer"
  test -e ran
  assert_equal "$(outcome_in report)" 'lost broken'
  assert_equal "$(jq -r .message report)" \
    "lost the lock: $(id -un)@$(uname -n) took the lock with --replace; the command was stopped"
  run dlock history job
  assert_output_contains "lost (replaced by $(id -un)@$(uname -n)), exit 76"
}

@test "--max-queue does not wait if that many runs are waiting already, and what each option needs is checked" {
  hold job
  queue job -- true

  run dlock run --wait 60s --max-queue 1 job -- true

  assert_message 75 '1 already waiting (--max-queue)'

  run dlock run --wait 60s --max-queue 0 -E 9 --report report job -- true

  assert_status 9
  assert_equal "$(outcome_in report)" 'busy null'

  for number in -1 x '' 1.5 99999999999; do
    run dlock run --wait 1s "--max-queue=$number" job -- true
    assert_message 64
  done

  run dlock run --supersede job -- touch ran

  assert_equal "$status $output" '64 dlock: --supersede needs --wait'
  refute test -e ran

  for wait in '' '--wait 0'; do
    # shellcheck disable=SC2086
    run dlock run $wait --replace job -- true
    assert_message 64 --wait
  done
}

@test "a run with --replace begins only when the command of the holder has ended" {
  dlock run -t 10m -k 60s job -- bash -c 'trap ": > termed" TERM; : > started
    until [[ -e finish ]]; do sleep 0.05; done; : > over' 3>&- &
  holder=$!
  eventually test -e started

  queue job --replace -- test -e over
  eventually test -e termed

  is_held job
  refute has_ended "$waiter"
  touch finish
  assert_exits 0 "$waiter"
  assert_exits 76 "$holder"
}

@test "--replace ends the orphaned command of a killed dlock before its own command begins" {
  on_server && skip 'on a server, the guardian has ended it'
  dlock run job -- bash -c 'echo $$ > pid; trap "" HUP; while :; do sleep 0.1; done' 3>&- &
  holder=$!
  eventually test -s pid
  command=$(< pid)
  kill -KILL "$holder"
  eventually has_ended "$holder"

  run timeout 60 dlock run --wait 60s --replace job -- bash -c 'has_ended "$1"' - "$command"

  assert_status 0
}

@test "--replace stops the command of a run whose dlock is killed during the wait" {
  on_server && skip 'on a server, the guardian ends it'
  dlock run -t 10m -k 60s job -- bash -c 'echo $$ > pid; trap ": > termed" TERM
    while :; do sleep 0.1; done' 3>&- &
  holder=$!
  eventually test -s pid
  command=$(< pid)
  queue job --replace -- bash -c 'has_ended "$1"' - "$command"
  eventually test -e termed

  kill -KILL "$holder"

  assert_exits 0 "$waiter"
}
