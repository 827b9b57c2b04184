#!/usr/bin/env bats
# What each store must keep of docs/promises.md, once on real servers: tests/CMakeLists.txt runs this file
# on each kind of server. The other files have what is special of a store, and more kinds of faults.
# shellcheck disable=SC2034  # what the helpers and the tests set for each other

setup() {
  load ../bats/support
  use_private_store
  EVENTUALLY_MS=60000
}

refute() { ! "$@"; }

# Until servers_go_on, no server replies.
servers_freeze() {
  case $DLOCK_TEST_STORE in
    redis) halt "$server_pid" ;;
    etcd) freeze_etcd 1 ;;
    postgres) freeze_postgres 1 ;;
    *) freeze "${!pids[@]}" ;;
  esac
}

servers_go_on() {
  case $DLOCK_TEST_STORE in
    redis) kill -CONT "$server_pid" ;;
    etcd) go_on_etcd 1 ;;
    postgres) postgres_goes_on 1 ;;
    *) go_on "${!pids[@]}" ;;
  esac
}

# The servers forget who has the lock `job`, as after a crash of one that keeps nothing.
servers_forget() {
  local i
  case $DLOCK_TEST_STORE in
    redis) redis-cli -s "${DLOCK_STORE#*:}" FLUSHALL ;;
    etcd) revoke_lease ;;
    postgres) sql 'DELETE FROM dlock.lock' ;;
    # A replica refuses, and is told by its primary.
    *) for i in "${!pids[@]}"; do member "$i" FLUSHALL; done ;;
  esac > /dev/null 2>&1 || true
}

# Starts a command under `job` that writes a line every 50 ms, and sets $holder and $command.
run_writer() {  # <file> [<option>...]
  dlock run --report "$report" "${@:2}" job -- bash -c '
    echo $$ > "$0.pid"
    while :; do echo "$EPOCHREALTIME" > "$0.new"; mv "$0.new" "$0"; read -rt 0.05 _ <> <(:); done' "$1" 2> "$said" 3>&- &
  holder=$!
  eventually test -s "$1"
  command=$(< "$1.pid")
}

# Prints the last line that the writer wrote, in milliseconds.
last_written() {  # <file>
  local at
  at=$(< "$1")
  at=${at/[.,]/}
  echo $((at / 1000))
}

@test "P1, P5: never two commands at a time, and each has a greater fencing token" {
  local i runs=()
  # The directory can be made by one at a time.
  for i in {1..6}; do
    dlock run --wait 60s job -- sh -c 'mkdir "$0.one" && echo "$DLOCK_FENCE" >> "$0" && rmdir "$0.one"' "$began" 3>&- &
    runs+=("$!")
  done
  for i in "${runs[@]}"; do assert_exits 0 "$i"; done

  assert_equal "$(wc -l < "$began")" 6
  assert_equal "$(sort -n -u "$began")" "$(< "$began")"

  servers_forget
  run dlock run --wait 60s job -- sh -c 'echo "$DLOCK_FENCE" >> "$0"' "$began"
  assert_status 0
  assert_equal "$(sort -n -u "$began")" "$(< "$began")"
}

@test "P1, P6: a lock that is held is refused, and goes to those that wait, in their order" {
  local i waiters=()
  hold job
  run dlock run job -- touch "$began"
  assert_status 75
  refute test -e "$began"
  for i in 1 2 3; do
    queue job -- sh -c 'echo "$1" >> "$0"' "$began" "$i"
    waiters+=("$waiter")
  done

  let_go

  assert_exits 0 "$holder"
  for i in "${waiters[@]}"; do assert_exits 0 "$i"; done
  # Servers of a quorum can see the waiters in different orders.
  [[ $DLOCK_TEST_STORE == quorum ]] || assert_equal "$(< "$began")" $'1\n2\n3'
  assert_equal "$(sort "$began")" $'1\n2\n3'
}

@test "P2: a command whose servers fall silent is dead before its lease ends, and the run is lost" {
  local before
  before=$(now_ms)
  run_writer "$began" --ttl 15s
  servers_freeze

  assert_exits 76 "$holder"

  # The servers fell silent before the first renewal was due.
  assert_between "$(last_written "$began")" "$before" $((before + 15000))
  refute kill -0 "$command"
  assert_equal "$(jq -r '"\(.outcome) \(.reason) \(.protected)"' "$report")" 'lost unconfirmed false'
  servers_go_on
}

@test "P2: a command whose dlock is stopped is dead before its lease ends" {
  local before
  before=$(now_ms)
  run_writer "$began" --ttl 15s
  halt "$holder"

  eventually has_ended "$command"

  assert_between "$(last_written "$began")" "$before" $((before + 15000))
  kill -CONT "$holder"
  assert_exits 76 "$holder"
}

@test "P3, P4, P12: a run whose lock went to another is lost, and leaves that one alone" {
  local other
  run_writer "$began"
  halt "$holder"
  servers_forget
  hold job --wait 60s
  other=$holder
  holder=$(pgrep -f -- "--report $report" | head -n 1)

  kill -CONT "$holder"

  assert_exits 76 "$holder"
  assert_equal "$(jq -r '"\(.outcome) \(.protected)"' "$report")" 'lost false'
  refute kill -0 "$(< "$began.pid")"
  is_held job
  let_go "$other"
  assert_exits 0 "$other"
}

@test "P4: an outage that is over before the lease ends is not noticed" {
  hold job --ttl 15s --report "$report" 2> "$said"
  servers_freeze
  # A third of the ttl later a renewal is due; two thirds are left then.
  never_within 5500 has_ended "$command"
  servers_go_on

  let_go

  assert_exits 0 "$holder"
  assert_equal "$(jq -r '"\(.outcome) \(.protected)"' "$report")" 'ran true'
}

@test "P7, P9: while no server replies, nothing starts, and each wait ends" {
  hold job
  run timeout 60 dlock run --wait 1s job -- touch "$began"
  assert_status 75
  queue job -- touch "$began"
  kill -TERM "$waiter"
  assert_exits 143 "$waiter"
  servers_freeze

  run timeout 60 dlock run job -- touch "$began"
  assert_status 69
  run timeout 60 dlock run --wait 1s job -- touch "$began"
  assert_status 69

  servers_go_on
  let_go
  assert_exits 0 "$holder"
  refute test -e "$began"
}

@test "P8: after kill -9 of dlock nothing is left, and the next run works" {
  run_writer "$began" --ttl 4s
  kill -KILL "$holder"

  eventually has_ended "$command"
  run dlock run --wait 60s job -- true
  assert_status 0
  eventually is_free job
  eventually no_leftovers
}
