#!/usr/bin/env bats
# Redis servers in trouble, and programs that are not Redis servers.
# shellcheck disable=SC2086  # words

setup() {
  load ../bats/support
  load redis
}

short=(--ttl 3s --store-timeout 900ms)

started() { grep -qsx "$1" "$order"; }

# Runs dlock with a store timeout of a second.
run_briefly() { run timeout 60 dlock --store-timeout 1s "$@"; }

# Asserts that `run` printed a refusal in one short line of plain text, with this exit code.
assert_refused() {  # <exit code> <part of what it says>
  assert_message "$1" "$2"
  ((${#output} < 600)) || { echo "${#output} characters" >&2; return 1; }
  if LC_ALL=C grep -q '[^ -~]' <<< "$output"; then
    echo "bytes that could steer a terminal: $output" >&2
    return 1
  fi
}

# Asserts that no lock is granted, and that the message has the server's error code.
assert_run_is_refused() {  # <exit code> <part of what it says>
  run_briefly run --report "$report" job -- echo started
  assert_refused "$@"
}

# Starts a run that waits for the store, and returns once it is waiting.
await_store() {
  dlock run -v -w 60s job -- "${noting[@]}" "$order" started 2> "$said" 3>&- &
  waiter=$!
  eventually grep -q 'trying again' "$said"
}

assert_store_is_well() {
  eventually started started
  assert_exits 0 "$waiter"
}

# --- Servers in trouble ---

# Makes data that a server needs some seconds to load.
restart_slowly() {
  redis EVAL 'for i = 1, 3000 do redis.call("SET", "other:" .. i, i) end' 0
  redis SAVE
  stop_redis
  start_redis --key-load-delay 1000 --loading-process-events-interval-bytes 1024
  [[ $(redis PING) == LOADING* ]]
}

@test "a server that is loading its data is unavailable, and waited for with -w" {
  use_redis_store
  restart_slowly

  assert_run_is_refused 69 LOADING

  assert_equal "$(jq -r .outcome "$report")" unavailable

  await_store

  assert_store_is_well
}

# Keeps the server busy with a script until script_is_killed.
script_never_ends() {
  redis CONFIG SET lua-time-limit 50
  redis EVAL 'while true do end' 0 > "$BATS_TEST_TMPDIR/script" 2>&1 &
  eventually says_busy
}

says_busy() { [[ $(redis PING) == BUSY* ]]; }

script_is_killed() { [[ $(redis SCRIPT KILL) == OK ]]; }

@test "a server that is busy in a script is reported as busy, waited for with -w, and not noticed by a run" {
  use_redis_store
  script_never_ends

  assert_run_is_refused 69 BUSY

  await_store

  script_is_killed

  assert_store_is_well

  hold job --ttl 9s --store-timeout 1s --kill-after 200ms 2> "$said"
  script_never_ends

  never_within 3500 has_ended "$holder"  # there was a renewal in that time
  script_is_killed

  await_renewal job
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(< "$said")" ''
}

@test "a replica, and a server with too few replicas, are refused, and waited for with -w" {
  use_redis_store
  redis REPLICAOF 127.0.0.1 1

  assert_run_is_refused 69 READONLY

  await_store

  redis REPLICAOF NO ONE

  assert_store_is_well

  redis CONFIG SET replica-serve-stale-data no
  redis REPLICAOF 127.0.0.1 1
  assert_run_is_refused 69 MASTERDOWN
  redis REPLICAOF NO ONE

  redis CONFIG SET min-replicas-to-write 1
  assert_run_is_refused 69 NOREPLICAS
  redis CONFIG SET min-replicas-to-write 0

  # A run ends when there are no longer enough.
  hold job --report "$report" "${short[@]}"

  redis CONFIG SET min-replicas-to-write 1

  assert_exits 76 "$holder"
  assert_equal "$(jq -r .reason "$report")" unconfirmed
}

# --- Memory that is full ---

memory_is_full() { redis CONFIG SET maxmemory 1; }

@test "a server whose memory is full grants nothing, and renews, releases, hands off and shows leases" {
  use_redis_store
  for mode in -n1 -s -n3; do
    hold "job$mode" "$mode" "${short[@]}" 2> "$said"
    memory_is_full

    assert_run_is_refused 69 OOM
    run dlock status "job$mode"
    assert_status 0
    await_renewal "job$mode"
    await_renewal "job$mode"
    let_go

    assert_exits 0 "$holder"
    assert_equal "$(< "$said")" ''
    assert_equal "$(redis EXISTS "dlock:{job$mode}")" 0
    redis CONFIG SET maxmemory 0
  done

  hold job
  for number in 1 2 3; do queue job "${noting[@]}" "$order" "$number"; done
  memory_is_full
  run dlock list
  assert_output_contains job
  let_go
  eventually started 3
  assert_equal "$(tr -d '\n' < "$order")" 123
}

@test "with full memory a server refuses with 69, renews and releases by hand, and gives turns and locks to those that wait" {
  use_redis_store
  local token slot words
  token=$(dlock acquire hand)
  slot=$(dlock acquire -n 2 slots)
  dlock limit api 1/1h
  dlock limit api 1/1h --wait 1h 3>&- &
  local turn=$!
  limit_waits() { [[ $(dlock limit api --show --json) != *'"waiters":[]'* ]]; }
  eventually limit_waits
  hold job
  queue job -- touch "$order"
  queue job --replace -- true
  memory_is_full

  dlock renew hand --token "$token" -t 1h
  dlock renew slots --token "$slot" -t 1h
  for words in 'acquire other' 'fence disk 1' 'limit other 1/1h -- touch ran' 'run other -- touch ran'; do
    run dlock $words
    assert_message 69 "the server's memory is full (maxmemory) [OOM]"
    refute_output_contains user_script
  done
  dlock release hand --token "$token"
  dlock release slots --token "$slot"
  is_free hand
  kill -TERM "$turn"
  assert_exits 143 "$turn"
  assert_equal "$(redis ZCARD 'dlock:{api}:limit:queue')" 0
  assert_exits 76 "$holder"

  redis CONFIG SET maxmemory 0
  assert_exits 0 "$waiter"
  [[ ! -e ran ]]
}

# --- Clusters ---

# Starts a member of a cluster that believes that another member has these slots, or none.
start_node() {  # [<slots of the other node>]
  choose_redis_port
  while ((redis_port > 55000)); do choose_redis_port; done
  mkdir "$BATS_TEST_TMPDIR/node"
  cat > "$BATS_TEST_TMPDIR/node/nodes.conf" << END
$(printf '1%.0s' {1..40}) 127.0.0.1:$redis_port@$((redis_port + 10000)) myself,master - 0 0 1 connected
$(printf '2%.0s' {1..40}) 127.0.0.1:1@2 master - 0 0 2 connected ${1:-}
vars currentEpoch 2 lastVoteEpoch 0
END
  use_redis_store --cluster-enabled yes --cluster-node-timeout 60000 \
    --dir "$BATS_TEST_TMPDIR/node" --port "$redis_port"
}

knows_all_slots() { redis CLUSTER INFO | grep -q '^cluster_state:ok'; }

@test "a member of a cluster without the lock's slot is refused" {
  start_node 0-16383
  eventually knows_all_slots

  assert_run_is_refused 78 'a member of a cluster'
}

# --- Servers that hear too late ---

@test "a server that receives a request too late keeps the lock no longer than its lease" {
  use_redis_store
  redis ACL SETUSER default on
  unset DLOCK_USER DLOCK_PASSWORD_FILE
  dlock run job -- true
  redis_freezes

  run timeout 60 dlock run --ttl 1s --store-timeout 200ms job -- echo started
  redis_goes_on

  assert_refused 69 'did not reply within'
  while_it_fails_with 69 dlock run job -- true
}

# Starts a run whose first request is delayed in the network.
run_with_a_late_request() {  # <option>...
  network keep
  dlock run --store-timeout 500ms "$@" job -- touch "$BATS_TEST_TMPDIR/ran" 2> /dev/null 3>&- &
  runs=$!
  eventually test -e "$BATS_TEST_TMPDIR/port.kept"
  network forward
}

comes_late() {
  network late
  eventually test ! -e "$BATS_TEST_TMPDIR/port.kept"
  redis PING > /dev/null
}

@test "a request that arrives after the end of its run, or after it gave up, is not granted, however late" {
  use_redis_store
  dlock run any -- true # so that the server knows the script
  use_relay
  run_with_a_late_request -w 10s
  assert_exits 0 "$runs"
  test -e "$BATS_TEST_TMPDIR/ran"

  comes_late

  is_free job
  assert_equal "$(left_of job)" -2

  rm "$BATS_TEST_TMPDIR/ran"
  run_with_a_late_request
  assert_exits 69 "$runs"
  # Longer than the store timeout.
  never_within 1000 test -e "$BATS_TEST_TMPDIR/ran"

  comes_late

  is_free job
  assert_equal "$(left_of job)" -2
}

# --- Servers whose SCAN does not end ---

# Puts a slow proxy before the server that alters the cursors of SCAN, and makes it the store.
alter_cursors() {  # <Perl expression for the next cursor>
  use_redis_store
  dlock run job -- true
  local file=$BATS_TEST_TMPDIR/altered
  "$DLOCK_SOURCE/tests/faults/altering_relay" "$file" "$redis_socket" \
    "our \$n; select undef, undef, undef, 0.01; s/^\\*2\r\n\\\$\\d+\r\n\\d+(?=\r\n\\*)/my \$c = $1; \"*2\r\n\\$\" . length(\$c) . \"\r\n\$c\"/me" 3>&- &
  eventually test -s "$file"
  export DLOCK_STORE
  DLOCK_STORE=redis://127.0.0.1:$(< "$file")
}

@test "a server that returns the same cursor again is given up" {
  alter_cursors 7
  local verb
  for verb in list history 'list --prometheus'; do
    run_briefly $verb
    assert_status 69
    assert_output_contains 'its SCAN does not come to an end'
  done
}

@test "a server that always returns another cursor is given up within five store timeouts" {
  alter_cursors '++$n + 1000'
  redis DEL dlock:locks
  local verb begin
  for verb in list history; do
    begin=$(now_ms)
    run timeout 60 dlock --store-timeout 1s "$verb"
    (($(now_ms) - begin >= 4500))
    assert_refused 69 'reading the names of all locks takes too long'
  done
}

# --- Servers that are none ---

# Starts a server that gives this reply, and makes it the store.
serve() {  # <as fake_server has it>
  local file=$BATS_TEST_TMPDIR/port
  rm -f "$file"
  "$DLOCK_SOURCE/tests/faults/fake_server" "$file" "$1" 3>&- &
  eventually test -s "$file"
  export DLOCK_STORE
  DLOCK_STORE=redis://127.0.0.1:$(< "$file")
}

# More memory than dlock may ever need. AddressSanitizer maps all there is.
limit_memory() {
  grep -q __asan_init "$DLOCK_BIN" || ulimit -S -v 100000
}

# Asserts that verbs give up on such a server in time, with a plain message. A run with a wait
# gives up when the wait is over.
assert_give_up_on() {  # <as fake_server has it> <part of what is said> <verb with its words>...
  serve "$1"
  local words
  limit_memory
  for words in "${@:3}"; do
    run_briefly $words
    assert_refused 69 "$2"
  done
  ulimit -S -v unlimited
}

@test "dlock gives up on a server that grants without a fence, or replies with anything else that makes no sense" {
  local reply said
  use_private_store
  assert_give_up_on silence 'did not reply within' \
    'run job echo started' 'run -w 2s job echo started' 'status job' list
  while IFS='|' read -r reply said; do
    echo "the server replies: $reply"
    assert_give_up_on "$reply" "$said" 'run job echo started' 'status job' list
  done << 'END'
*1\r\n$7\r\ngranted\r\n|127.0.0.1
:1\r\n|127.0.0.1
+OK\r\n+OK\r\n+OK\r\n+OK\r\n|127.0.0.1
END
  # These do not get as far as what a verb expects.
  while IFS='|' read -r reply said; do
    echo "the server replies: $reply"
    assert_give_up_on "$reply" "$said" 'run job echo started'
  done << 'END'
drip|did not reply within
end|closed the connection
flood|127.0.0.1
HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n|does not speak the Redis protocol
*4294967295\r\n|does not speak the Redis protocol
*99999999999999999999\r\n|does not speak the Redis protocol
$9223372036854775807\r\n|does not speak the Redis protocol
{*1\r\n}x1000000|does not speak the Redis protocol
-ERR {\e]52;c;eA==\e[2J}x800000\r\n|127.0.0.1
*3\r\n$7\r\ngran|did not reply within
-ERR \e]0;title\e\\ \e[2J \0 done\r\n|done
END
}

@test "dlock gives up on a server that resets every connection" {
  use_private_store
  assert_give_up_on reset 'connection reset by peer; does it require TLS (rediss://)?' 'run job echo started'
  DLOCK_STORE=${DLOCK_STORE/redis/rediss}

  # Half a second is too short for TLS under sanitizers.
  run timeout 60 dlock run job -- echo started

  assert_refused 69 'during the TLS handshake: connection reset by peer'
}

@test "the error says that a member of a cluster refused, and not that later ones were too slow" {
  local i members
  choose_redis_port
  members=127.0.0.1:$redis_port
  use_private_store
  # More than can be asked before the time is over.
  for i in 1 2 3 4 5 6; do
    "$DLOCK_SOURCE/tests/faults/fake_server" "$BATS_TEST_TMPDIR/port-$i" silence 3>&- &
    eventually test -s "$BATS_TEST_TMPDIR/port-$i"
    members+=,127.0.0.1:$(< "$BATS_TEST_TMPDIR/port-$i")
  done

  run timeout 60 dlock --store "redis+cluster://$members" run job -- echo started

  assert_refused 69 "cannot reach 127.0.0.1:$redis_port: connection refused"
}

@test "a server of another kind is named" {
  use_private_store
  local greeting kind
  while IFS='|' read -r greeting kind; do
    rm -f "$BATS_TEST_TMPDIR/other"
    "$DLOCK_SOURCE/tests/faults/fake_server" "$BATS_TEST_TMPDIR/other" "$greeting" 3>&- &
    eventually test -s "$BATS_TEST_TMPDIR/other"

    run timeout 60 dlock --store "redis://127.0.0.1:$(< "$BATS_TEST_TMPDIR/other")" run job -- echo started

    assert_message 69 "does not speak the Redis protocol" "; it looks like $kind"
  done << 'END'
HTTP/1.1 400 Bad Request\r\n\r\n|an HTTP server
SSH-2.0-OpenSSH_9.2\r\n|an SSH server
220 mail.example.org ESMTP\r\n|a mail or FTP server
ERROR\r\n|memcached
END
}

@test "a server in protected mode is refused, and a redirect to another member of a cluster is not followed" {
  use_private_store
  serve '-DENIED Redis is running in protected mode because protected mode is enabled.\r\n'

  for words in 'run job echo started' 'status job' list; do
    run_briefly $words
    assert_refused 77 'the server is in protected mode'
  done

  serve '-MOVED 42 169.254.169.254:80\r\n'

  run_briefly run job -- echo started

  assert_refused 78 'a member of a cluster'
}
