#!/usr/bin/env bats
# Runs that replace others, give way to newer ones, or do not join a long queue. Once for
# each kind of store.
# shellcheck disable=SC2016  # the commands' own variables
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load support
  load ../faults/locks
  export -f has_ended  # for commands that look whether another one is there
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

teardown() { kill_leftovers; }

refute() { ! "$@"; }

on_server() { [[ $DLOCK_STORE == redis* ]]; }

outcome_in() { jq -r '"\(.outcome) \(.reason)"' "$1"; }

is_marked() { dlock status job | grep -qF '(broken)'; }

is_stopped() { grep -q '^State:.T' "/proc/$1/status"; }

# --max-queue

@test "--max-queue does not wait where so many wait already" {
  hold job
  queue job -- true

  run dlock run --wait 60s --max-queue 1 job -- true

  assert_status 75
  assert_one_line
  assert_output_contains '1 already waiting (--max-queue)'
}

@test "--max-queue waits where fewer wait" {
  hold job
  queue job -- true

  queue job --max-queue 2 -- touch ran
  let_go

  assert_exits 0 "$waiter"
  test -e ran
}

@test "a waiter with --max-queue keeps its place when more come" {
  hold job
  queue job --max-queue 1 -- touch ran
  first=$waiter
  queue job -- true

  let_go

  assert_exits 0 "$first"
  test -e ran
}

@test "--max-queue 0 takes a free lock, and never waits" {
  dlock run --wait 60s --max-queue 0 job -- true
  hold job

  run dlock run --wait 60s --max-queue 0 job -- true

  assert_status 75
}

@test "with --max-queue -E says the exit code, and the report that it was busy" {
  hold job

  run dlock run --wait 60s --max-queue 0 -E 9 --report report job -- true

  assert_status 9
  assert_equal "$(outcome_in report)" 'busy null'
}

@test "dead waiters do not count for --max-queue" {
  on_server && skip 'a server knows that one is dead 90 s later'
  hold job
  queue job -- true
  kill -KILL "$waiter"
  eventually has_ended "$waiter"

  queue job --max-queue 1 -- touch ran
  let_go

  assert_exits 0 "$waiter"
  test -e ran
}

# --supersede

@test "a waiter with --supersede gives way to a newer one, and says to whom" {
  hold job
  dlock run --wait 60s --supersede --report report job -- touch older 2> said 3>&- &
  older=$!
  eventually is_queued job "$older"

  queue job --supersede -- touch newer

  assert_exits 75 "$older"
  assert_equal "$(< said)" "dlock: job: superseded by a newer run ($(uname -n), pid $waiter)"
  assert_equal "$(outcome_in report)" 'superseded null'
  let_go
  assert_exits 0 "$waiter"
  test -e newer
  refute test -e older
}

@test "of twenty that supersede each other the newest alone runs" {
  hold job
  local number pids=()
  for number in {1..20}; do
    dlock run --wait 60s --supersede -q job -- sh -c 'echo "$1" >> ran' - "$number" 3>&- &
    pids+=($!)
    eventually is_queued job "$!"
  done
  assert_equal "$(look job '.waiters | length')" 1

  let_go

  assert_exits 0 "${pids[-1]}"
  for number in {0..18}; do assert_exits 75 "${pids[number]}"; done
  assert_equal "$(< ran)" 20
}

@test "waiters without --supersede are left alone, and keep their places" {
  hold job
  queue job -- touch ordinary
  ordinary=$waiter
  queue job --supersede -- true
  older=$waiter

  queue job --supersede -- test -e ordinary

  assert_exits 75 "$older"
  let_go
  assert_exits 0 "$ordinary"
  assert_exits 0 "$waiter"
}

@test "--supersede leaves who holds the lock alone" {
  hold job --supersede
  queue job --supersede -- true

  refute is_marked
  let_go
  assert_exits 0 "$holder"
  assert_exits 0 "$waiter"
}

@test "one with --supersede that does not wait supersedes nobody" {
  hold job
  queue job --supersede -- true

  run dlock run --supersede job -- true

  assert_status 75
  assert_output_contains 'held by'
  let_go
  assert_exits 0 "$waiter"
}

@test "with -E 0 a superseded run says nothing" {
  hold job
  dlock run --wait 60s --supersede -E 0 job -- true 2> said 3>&- &
  older=$!
  eventually is_queued job "$older"

  queue job --supersede -- true

  assert_exits 0 "$older"
  assert_equal "$(< said)" ''
}

@test "a stopped waiter that was superseded does not run when it goes on" {
  hold job
  queue job --supersede -q -- touch older
  older=$waiter
  kill -STOP "$older"
  eventually is_stopped "$older"
  queue job --supersede -- touch newer
  let_go
  assert_exits 0 "$waiter"

  kill -CONT "$older"

  assert_exits 75 "$older"
  refute test -e older
}

@test "a stopped waiter that was promised the lock gives way to a newer one" {
  hold job
  queue job --supersede -q -- touch older
  older=$waiter
  kill -STOP "$older"
  eventually is_stopped "$older"
  let_go
  assert_exits 0 "$holder"

  run timeout 20 dlock run --wait 60s --supersede job -- echo newer

  assert_equal "$status $output" '0 newer'
  kill -CONT "$older"
  assert_exits 75 "$older"
  refute test -e older
}

@test "a newer run takes the place of one that was killed" {
  hold job
  queue job --supersede -- true
  kill -KILL "$waiter"
  eventually has_ended "$waiter"

  queue job --supersede -- touch newer
  let_go

  assert_exits 0 "$waiter"
  test -e newer
}

@test "a newer one whose wait ends leaves the lock to nobody" {
  hold job
  queue job --supersede -q -- true
  older=$waiter

  run dlock run --wait 200ms --supersede -q job -- true

  assert_status 75
  assert_exits 75 "$older"
  eventually nobody_waits job
}

@test "with --supersede --max-queue one that would be superseded does not count" {
  hold job
  queue job --supersede -q -- true
  older=$waiter

  queue job --supersede --max-queue 1 -- touch newer

  assert_exits 75 "$older"
  let_go
  assert_exits 0 "$waiter"
}

@test "those who watch are told that a superseded run has left" {
  load watching
  watch job
  hold job
  queue job --supersede -q -- true
  older=$waiter

  queue job --supersede -- true

  left_is_told() { jq -es "any(.event == \"left\" and .pid == $older)" "$seen"; }
  eventually left_is_told
}

# --replace

@test "--replace ends the command of the holder, and then runs" {
  hold job --report report
  dlock run --wait 60s --replace job -- bash -c 'has_ended "$1" && touch ran' - "$command" 3>&- &
  replacer=$!

  assert_exits 76 "$holder"
  assert_exits 0 "$replacer"
  test -e ran
  assert_equal "$(outcome_in report)" 'lost broken'
  assert_equal "$(jq -r .message report)" \
    "lost the lock: $(id -un)@$(uname -n) took the lock with --replace; the command was ended"
}

@test "--replace takes a free lock as any other" {
  run dlock run --wait 60s --replace job -- echo ran

  assert_equal "$status $output" '0 ran'
}

@test "--replace wants --wait" {
  for wait in '' '--wait 0'; do
    # shellcheck disable=SC2086
    run dlock run $wait --replace job -- true
    assert_status 64
    assert_one_line
    assert_output_contains --wait
  done
}

@test "one that replaces begins only when the command of the holder has ended" {
  dlock run -k 60s job -- bash -c 'trap "touch termed" TERM; touch started
    until [[ -e finish ]]; do sleep 0.02; done; touch over' 3>&- &
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

@test "a waiter in front of one that replaces is not started in vain" {
  dlock run -k 60s job -- bash -c 'trap "touch termed" TERM; touch started
    until [[ -e finish ]]; do sleep 0.02; done' 3>&- &
  eventually test -e started
  queue job --report report -- touch before
  before=$waiter

  queue job --replace -- touch ran
  touch finish

  assert_exits 76 "$before"
  assert_exits 0 "$waiter"
  refute test -e before
  assert_equal "$(outcome_in report)" 'lost broken'
  assert_equal "$(jq -r .message report)" \
    "lost the lock (broken) before the command could start: $(id -un)@$(uname -n) took the lock with --replace"
}

@test "who waits behind one that replaces runs after it" {
  hold job
  queue job --replace -- sh -c 'touch ran; until [ -e finish ]; do sleep 0.02; done'
  first=$waiter
  eventually test -e ran

  queue job -- touch next
  touch finish

  assert_exits 0 "$first"
  assert_exits 0 "$waiter"
}

@test "of several that replace each other the last one runs to its end" {
  hold job
  local number pids=()
  for number in {1..5}; do
    dlock run --wait 60s --replace -q job -- \
      sh -c 'echo "$1" >> begun; until [ -e finish ]; do sleep 0.02; done; echo "$1" >> ended' \
      - "$number" 3>&- &
    pids+=($!)
    eventually grep -qsx "$number" begun
  done

  touch finish

  assert_exits 0 "${pids[4]}"
  for number in {0..3}; do assert_exits 76 "${pids[number]}"; done
  assert_equal "$(< ended)" 5
}

@test "with --replace --supersede the older one that waits to replace goes" {
  dlock run -k 60s job -- bash -c 'trap "touch termed" TERM; touch started
    until [[ -e finish ]]; do sleep 0.02; done' 3>&- &
  eventually test -e started
  queue job --replace --supersede -q -- touch older
  older=$waiter

  queue job --replace --supersede -- touch newer

  assert_exits 75 "$older"
  touch finish
  assert_exits 0 "$waiter"
  test -e newer
  refute test -e older
}

@test "--replace takes the lock from all who share it" {
  hold job --shared
  first=$holder
  hold job --shared

  dlock run --wait 60s --replace job -- true

  assert_exits 76 "$first"
  assert_exits 76 "$holder"
}

@test "--replace takes all slots" {
  hold job --slots 2
  first=$holder
  hold job --slots 2

  dlock run --wait 60s --slots 2 --replace job -- true

  assert_exits 76 "$first"
  assert_exits 76 "$holder"
}

@test "where a slot is free --replace takes that, and nobody loses the lock" {
  hold job --slots 2

  dlock run --wait 60s --slots 2 --replace job -- true

  refute is_marked
  let_go
  assert_exits 0 "$holder"
}

@test "--replace takes a lock that was taken by hand" {
  token=$(dlock acquire -t 1h job)

  run timeout 5 dlock run --wait 60s --replace job -- echo ran

  assert_equal "$status $output" '0 ran'
  run dlock renew --token "$token" job
  assert_status 76
}

@test "--replace takes a lock that is held on after its run" {
  dlock run --min-hold 1h job -- true

  run timeout 5 dlock run --wait 60s --replace job -- echo ran

  assert_equal "$status $output" '0 ran'
}

@test "--replace does not take the lock from the run that it is called in" {
  run dlock run job -- dlock run --wait 60s --replace job -- true

  assert_status 75
  assert_output_contains 'held by an outer run'
}

@test "one that replaces and is interrupted leaves the lock to those who wait" {
  dlock run -k 60s job -- bash -c 'trap "touch termed" TERM; touch started
    until [[ -e finish ]]; do sleep 0.02; done' 3>&- &
  eventually test -e started
  queue job -- touch ran
  waiting=$waiter
  queue job --replace -- true
  kill -TERM "$waiter"
  eventually has_ended "$waiter"

  touch finish

  assert_exits 0 "$waiting"
  test -e ran
}

@test "a stopped run that replaces keeps nobody from the lock" {
  dlock run -k 60s job -- bash -c 'trap "touch termed" TERM; touch started
    until [[ -e finish ]]; do sleep 0.02; done' 3>&- &
  eventually test -e started
  queue job --replace -- touch replaced
  replacer=$waiter
  eventually test -e termed
  kill -STOP "$replacer"
  eventually is_stopped "$replacer"
  queue job -- touch ran

  touch finish

  assert_exits 0 "$waiter"
  test -e ran
  kill -CONT "$replacer"
  assert_exits 0 "$replacer"
}

@test "what is left of a run whose dlock was killed is ended before the next begins" {
  on_server && skip 'there a guardian has ended it'
  dlock run job -- bash -c 'echo $$ > pid; trap "" HUP; while :; do sleep 0.05; done' 3>&- &
  holder=$!
  eventually test -s pid
  command=$(< pid)
  kill -KILL "$holder"
  eventually has_ended "$holder"

  run timeout 20 dlock run --wait 60s --replace job -- bash -c 'has_ended "$1"' - "$command"

  assert_status 0
}

@test "a run whose dlock is killed while one waits to replace it is ended" {
  on_server && skip 'there a guardian ends it'
  dlock run -k 60s job -- bash -c 'echo $$ > pid; trap "touch termed" TERM
    while :; do sleep 0.05; done' 3>&- &
  holder=$!
  eventually test -s pid
  command=$(< pid)
  queue job --replace -- bash -c 'has_ended "$1"' - "$command"
  eventually test -e termed

  kill -KILL "$holder"

  assert_exits 0 "$waiter"
}

@test "the file of settings can say all three" {
  mkdir -p "$XDG_CONFIG_HOME/dlock"
  printf '[run]\nwait = "60s"\nreplace = true\nsupersede = true\nmax-queue = 3\n' \
    > "$XDG_CONFIG_HOME/dlock/config.toml"
  hold job

  dlock run job -- true

  assert_exits 76 "$holder"
}

@test "what is no number of waiters is 64" {
  for number in -1 x '' 1.5 99999999999; do
    run dlock run --wait 1s "--max-queue=$number" job -- true
    assert_status 64
    assert_one_line
  done
}
