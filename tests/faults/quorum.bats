#!/usr/bin/env bats
# Several independent servers, of which a majority has to grant a lock. A lease lasts six
# seconds.
# shellcheck disable=SC2034,SC2086  # the helpers set holder, waiter, ports; dlock uses DLOCK_STORE

setup() {
  load ../bats/support
  load redis
  load partition
  load sentinel
  load quorum
  load doctor
}

lease=(--ttl 6s)

# --- Servers that are well ---

# With --min-strength, tests wait for the lock on all servers: on a busy machine, the first
# attempt may get it from a majority only.

@test "each grant has a greater fence, though the counters of servers are far ahead" {
  use_quorum_store 3
  local ahead=$((${EPOCHREALTIME/[.,]/} + 3600000000))
  member 1 HSET 'dlock:{job}:s' fence "$((ahead - 5000000))" > "$said"
  member 2 HSET 'dlock:{job}:s' fence "$ahead" > "$said"
  first=$(dlock run job -- sh -c 'echo $DLOCK_FENCE')
  crash 1

  second=$(dlock run job -- sh -c 'echo $DLOCK_FENCE')

  ((first > ahead && second > first))
}

# --- What cannot be a quorum ---

@test "two entries that are one server are refused with 78, also by verbs that only read" {
  use_quorum_store 3
  DLOCK_STORE="redis+quorum://127.0.0.1:${ports[1]},localhost:${ports[1]},127.0.0.1:${ports[2]}"

  for verb in "run job -- touch $ran" 'status job' list 'history job' history 'fence disk 1' 'break --yes job' watch; do
    run timeout 60 dlock $verb
    assert_message 78 'are the same server'
  done
  [[ ! -e $ran ]]
}

@test "a replica has no vote, and two of three are refused with 78" {
  use_quorum_store 3
  member 3 REPLICAOF 127.0.0.1 "${ports[1]}"

  eventually is_complained_about 3
  grep -q 'is a replica' "$said"

  member 2 REPLICAOF 127.0.0.1 "${ports[1]}"
  run dlock run job -- touch "$ran"
  assert_message 78 'is a replica'
  [[ ! -e $ran ]]
}

# --- One server that is wrong, or lies ---

# Prints the fence of a run. On a busy machine, the first attempt may miss a server.
fence_of_a_run() { dlock -q run -w 20s "${lease[@]}" job -- sh -c 'echo $DLOCK_FENCE'; }

@test "a fence that is implausibly far ahead is one failed vote, and is not passed on" {
  use_quorum_store 3
  for far in 9007199254740989 4503599627370000 $((${EPOCHREALTIME/[.,]/} + 33 * 86400000000)); do
    member 1 HSET 'dlock:{job}:s' fence "$far" > "$said"
    eventually is_complained_about 1

    crash 3
    run dlock run "${lease[@]}" job -- touch "$ran"
    assert_status 69
    # Two that fail may be known before the reply of the second one is there.
    assert_output_contains ' of 3 servers reply, 2 required'
    start_member 3
    [[ ! -e $ran ]]
    (($(member 2 HGET 'dlock:{job}:s' fence) <= ${EPOCHREALTIME/[.,]/}))
  done

  member 1 HDEL 'dlock:{job}:s' fence
  eventually runs_without_complaint
  (($(fence_of_a_run) <= ${EPOCHREALTIME/[.,]/}))
}

is_complained_about() {  # <server>
  dlock run -w 20s "${lease[@]}" job true 2> "$said" &&
    grep -q "not counted: 127.0.0.1:${ports[$1]}" "$said"
}

runs_without_complaint() {
  dlock run -w 20s --min-strength 1 job true 2> "$said" && [[ ! -s $said ]]
}

@test "a lock goes on if the clock of all servers was far ahead once" {
  use_quorum_store 3
  local ahead=$((${EPOCHREALTIME/[.,]/} + 400 * 86400000000))
  for i in 1 2 3; do member "$i" HSET 'dlock:{job}:s' fence "$ahead" > "$said"; done

  first=$(fence_of_a_run)
  crash 1
  second=$(fence_of_a_run)

  ((first > ahead && second > first && second < ahead + 1000))
  # And a server that is ahead of the others by even more is not believed.
  member 2 HSET 'dlock:{job}:s' fence 4503599627370000
  run dlock run "${lease[@]}" job -- touch "$ran"
  assert_status 69
  [[ ! -e $ran ]]
}

@test "a run that only one server knows makes no other one skip, which is a warning, and is no success" {
  use_quorum_store 3
  local now=${EPOCHREALTIME/[.,]/}
  local end='{"host":"a","user":"b","outcome":"ran","duration_ms":1,"exit_code":0}'
  for rule in '' --retry-failed; do
    member 1 HSET "dlock:{job$rule}:s" fence "$now" run "$now $now $now $end" good "$now $now $now $end" > "$said"
    member 1 LPUSH "dlock:{job$rule}:r" "$now $now $now $end" > "$said"

    run dlock history "job$rule" --succeeded-within 1h
    assert_status 1
    eventually has_no_history "job$rule"
    run dlock run -w 20s --dedupe 1h $rule --report "$report" "job$rule" -- echo ran
    assert_equal "$(of_report .outcome)" ran
    assert_output_contains "not counted: 127.0.0.1:${ports[1]} reports a run with fence $now that most servers do not know"
    run dlock run -w 20s --dedupe 1h $rule --report "$report" "job$rule" -- touch "$ran"
    assert_equal "$(of_report .outcome)" deduplicated
  done
  [[ ! -e $ran ]]
}

# A server that is slow may know it.
has_no_history() { [[ $(dlock history --json "$1") == '[]' ]]; }

@test "a key of the wrong kind on one server is one failed vote, and what it says of slots, waiters, refusals and breaks does not count" {
  use_quorum_store 3
  for key in 'dlock:{job}:s' 'dlock:{job}:h' 'dlock:{job}:q' 'dlock:{job}:r'; do
    member 1 SET "$key" nonsense > "$said"
    run dlock run -w 20s "${lease[@]}" job -- echo ran
    assert_status 0
    run dlock status job
    assert_status 1
    run dlock history job
    assert_status 0
    member 1 DEL "$key" > "$said"
  done

  local now=${EPOCHREALTIME/[.,]/}
  member 1 HSET 'dlock:{job}:s' fence 1 slots 7 refused 1000000 > "$said"
  member 1 SET 'dlock:{job}' dlock:shared PX 60000 > "$said"
  member 1 HSET 'dlock:{job}:h' 00112233445566778899aabbccddeeff \
    "x 3 1 $now $((now + 60000000)) h {\"host\":\"liar\",\"pid\":1}" > "$said"
  member 1 ZADD 'dlock:{job}:q' 1 ffeeddccbbaa99887766554433221100 > "$said"
  member 1 HSET 'dlock:{ghost}:s' fence 1 refused 5 > "$said"
  run dlock run -w 20s --report "$report" job -- echo ran
  assert_status 0
  assert_equal "$(of_report .outcome)" ran
  eventually shows_no_lie
}

shows_no_lie() {
  local shown
  shown=$(dlock status --json job; dlock list --json)
  [[ $shown == *'"holders":[]'* && $shown != *liar* && $shown != *ghost* ]]
}

@test "a lease that a single server reports as broken is kept" {
  use_quorum_store 3
  hold job "${lease[@]}" -w 20s --min-strength 1 --report "$report" 2> "$said"
  record=$(member 1 HVALS 'dlock:{job}:h')
  token=$(member 1 HKEYS 'dlock:{job}:h')
  fence=$(cut -d ' ' -f 3 <<< "$record")

  member 1 HSET 'dlock:{job}:h' "$token" "${record/ h / b }"
  member 1 RPUSH "dlock:{job}:b:$fence" 1

  eventually grep -q 'a single server reports that the lock was broken' "$said"
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.protected)"')" 'ran true'
}

@test "a fence that only one server has admitted is not in the way of smaller ones" {
  use_quorum_store 3
  member 1 SET 'dlock:{disk}:f' 9223372036854775807

  eventually dlock fence disk 10
  run dlock fence disk 9
  assert_status 76
  # With a server away, the one that says so may be right.
  crash 3
  run dlock fence disk 11
  assert_status 76
}

# --- Servers that are away ---

@test "with two of five stopped a run goes on, and another one waits for it" {
  use_quorum_store 5
  hold job "${lease[@]}" --report "$report"

  freeze 1 2

  eventually was_renewed_on 3
  run dlock run "${lease[@]}" job -- touch "$ran"
  assert_status 75
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.protected)"')" 'ran true'
  run dlock run "${lease[@]}" job -- touch "$ran"
  assert_status 0
  assert_output_contains 'strength 0'
}

# Whether the first third of its lease is over, judged by its remaining time.
was_renewed_on() {
  local left
  left=$(member "$1" PTTL 'dlock:{job}')
  ((left > 0 && left <= 4500)) && was_low=1
  ((${was_low:-0} && left > 5000))
}

@test "an attempt ends within --store-timeout, even if the servers stop one after the other" {
  use_quorum_store 3
  freeze 2 3
  local began
  began=$(now_ms)
  dlock run --store-timeout 2s job -- touch "$ran" 2> "$said" 3>&- &
  attempt=$!
  eventually has_granted 1

  freeze 1

  assert_exits 69 "$attempt"
  # in time: a store timeout for each server would be 4 s and more
  assert_between "$(($(now_ms) - began))" 1500 3900
  [[ ! -e $ran ]]
}

has_granted() { [[ $(member "$1" EXISTS 'dlock:{job}') == 1 ]]; }  # <server>

@test "a lock that is too weak for --min-strength is released" {
  use_quorum_store 3
  crash 3

  run dlock run --min-strength 1 job -- touch "$ran"

  assert_status 69
  assert_output_contains 'strength 0 is below --min-strength 1'
  [[ ! -e $ran ]]
  assert_equal "$(held_on job)" 0
  # Without the lock a run is not lost.
  run dlock run --min-strength 1 --on-outage run --report "$report" job -- sh -c 'exit 3'
  assert_status 3
  assert_output_contains 'strength 0 is below --min-strength 1; running without the lock'
  assert_equal "$(of_report '"\(.outcome) \(.reason) \(.protected)"')" 'ran null false'
  assert_equal "$(held_on job)" 0
}

@test "a request that arrives late finds that it was abandoned" {
  use_quorum_store 3
  hold job "${lease[@]}"
  queue job "${lease[@]}" -- touch "$ran"
  freeze 1
  let_go
  assert_exits 0 "$holder"
  assert_exits 0 "$waiter"

  go_on 1

  eventually has_heard_of_the_end 1
  eventually is_held_on job 0
}

@test "a server that was told nothing but that a claim is abandoned refuses its late request" {
  use_quorum_store 3
  dlock run "${lease[@]}" job -- true
  member 1 MONITOR > "$said" 2> /dev/null 3>&- &
  eventually grep -qx OK "$said"
  dlock run "${lease[@]}" job -- true
  member 1 ECHO 'that was it' > /dev/null
  eventually grep -q '"that was it"' "$said"
  request=$(sed -n 's/^[^]]*\] \("EVALSHA".*\)/\1/p' "$said" | head -n 1)
  [[ $request =~ \"dlock:\{job\}\"\ .*\"([0-9a-f]{32})\" ]]
  token=${BASH_REMATCH[1]}

  # Otherwise the request is granted.
  assert_equal "$(member 1 <<< "$request" | head -n 1)" granted
  member 1 DEL 'dlock:{job}' 'dlock:{job}:h' > /dev/null
  member 1 SET "dlock:{job}:t:$token" 1 PX 60000 > /dev/null

  assert_equal "$(member 1 <<< "$request" | head -n 1)" 'given up'
  assert_equal "$(member 1 EXISTS 'dlock:{job}')" 0
}

has_heard_of_the_end() { [[ -n $(member "$1" KEYS 'dlock:{job}:t:*') ]]; }

@test "with a silent server, waiters give way to each other" {
  use_quorum_store 3
  hold job "${lease[@]}"
  freeze 1
  local i
  for i in 1 2; do
    dlock run -w 60s "${lease[@]}" job -- sh -c 'echo "$DLOCK_FENCE" >> "$1"' - "$ran" 3>&- &
    waiters[i]=$!
  done
  eventually is_waited_for_on 2 2
  eventually is_waited_for_on 3 2

  let_go

  assert_exits 0 "$holder"
  for i in 1 2; do assert_exits 0 "${waiters[i]}"; done
  assert_equal "$(wc -l < "$ran")" 2
  sort -n -u -c "$ran"
}

is_waited_for_on() { [[ $(member "$1" ZCARD 'dlock:{job}:q') == "$2" ]]; }  # <server> <number>

# --- Servers that forget ---

# Empties these servers. True if the command has ended by then; to be repeated, because a
# renewal between two of them gives the first one its vote again.
ends_when_emptied() {  # <number>...
  local number
  for number; do member "$number" FLUSHALL; done
  has_ended "$command"
}

@test "one of three servers may forget the lock, which it soon has again, and with two the command is stopped at the next renewal" {
  use_quorum_store 3
  hold job "${lease[@]}" --report "$report"

  member 1 FLUSHALL
  run dlock run "${lease[@]}" job -- touch "$ran"
  assert_status 75
  eventually is_held_on job 3

  eventually ends_when_emptied 1 2
  eventually has_ended "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason)"')" 'lost gone'
}

@test "clocks that step an hour ahead on two of five servers do not lead to a second holder" {
  use_stepping_clocks
  use_quorum_store 5
  hold job "${lease[@]}" --report "$report"
  fence=$(look job '.holders[0].fence')
  # Otherwise the next renewal would set the lease up again before the inspection.
  eventually was_renewed_on 3

  for i in 1 2; do echo 3600000 > "$fleet/$i.clock"; done

  for i in 1 2; do eventually is_over_on "$i"; done
  run dlock run "${lease[@]}" job -- touch "$ran"
  assert_status 75
  eventually is_held_on job 5
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.protected)"')" 'ran true'
  run_apart dlock run "${lease[@]}" -w 20s --min-strength 1 job -- sh -c 'echo "$DLOCK_FENCE"'
  assert_status 0
  ((output > fence))
}

# Call this before the servers are started: the clock of server N is then ahead by the
# number of milliseconds in the file $fleet/N.clock.
use_stepping_clocks() {
  cc -shared -fPIC -o "$BATS_TEST_TMPDIR/clock.so" "$DLOCK_SOURCE/tests/chaos/clock.c" || return
  { echo '#!/bin/sh'
    echo 'export CHAOS_CLOCK="${1%/conf}.clock" LD_PRELOAD='"'$BATS_TEST_TMPDIR/clock.so'"
    echo "exec '$redis_program' \"\$@\""; } > "$BATS_TEST_TMPDIR/server"
  chmod +x "$BATS_TEST_TMPDIR/server"
  redis_program=$BATS_TEST_TMPDIR/server
}

is_over_on() { [[ $(member "$1" EXISTS 'dlock:{job}') == 0 ]]; }  # <server>

@test "contenders that die at any of their requests leave nothing behind, and fences increase" {
  local i code died=0
  use_quorum_store 3
  # Not the guardian, which is another process.
  for i in {1..15}; do
    code=0
    ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 strace -qq -o /dev/null -e trace=sendto,sendmsg -e "inject=sendto,sendmsg:signal=KILL:when=$i" \
      dlock run --ttl 2s -w 60s job -- sh -c 'echo "$DLOCK_FENCE" >> "$1"' - "$ran" 2>> "$said" || code=$?
    ((code != 137)) || ((++died))
  done
  echo "died: $died"
  # A request and a release of each server at least.
  ((died >= 6))

  run dlock run -w 60s --ttl 2s job -- sh -c 'echo "$DLOCK_FENCE" >> "$1"' - "$ran"

  assert_status 0
  sort -n -u -c "$ran"
  eventually is_held_on job 0
}

@test "servers that were restarted without their data have no vote for as long as --max-ttl" {
  use_quorum_store 3
  export DLOCK_MAX_TTL=3s
  for i in 1 2 3; do eventually is_up_for "$i" 4; done
  hold job --ttl 3s --report "$report"

  restart_empty 1 2

  run dlock run --ttl 3s job -- touch "$ran"
  assert_status 69
  assert_output_contains '3 of 3 servers reply, 1 can vote, 2 required: '
  for i in 1 2; do
    assert_output_contains "127.0.0.1:${ports[i]} has no vote until it has been up for 3.0s (--max-ttl), in "
  done
  [[ ! -e $ran ]]
  for i in 1 2; do eventually is_up_for "$i" 4; done
  eventually has_ended "$holder"
  run dlock run -w 10s --ttl 3s job -- touch "$ran"
  assert_status 0
}

@test "a detached lease is renewed and released even if --max-ttl is shorter than the default ttl" {
  use_quorum_store 3
  export DLOCK_MAX_TTL=4s DLOCK_STORE_TIMEOUT=1s
  for i in 1 2 3; do eventually is_up_for "$i" 5; done
  token=$(dlock acquire --ttl 4s job)

  dlock renew --token "$token" --ttl 4s job
  run dlock renew --token "$token" --ttl 5s job
  assert_status 78
  assert_output_contains 'longer than --max-ttl'
  dlock release --token "$token" job

  eventually is_held_on job 0
}

# --- Many who want it ---

@test "one of three servers that wakes waiters without a reason holds up no hand-off, and is asked rarely" {
  use_quorum_store 3
  hold job -w 20s --min-strength 1
  dlock run -w 60s job -- touch "$ran" 3>&- &
  waiter=$!
  eventually waits_on_all
  member 1 EVAL 'for i = 1, 300000 do redis.call("RPUSH", KEYS[1], "x") end' 1 'dlock:{job}:a' > /dev/null
  before=$(scripts_of 2)
  began=$(member 2 TIME | head -n 1)

  never_within 3000 false

  # By the clock of the server: the test may have been held up.
  assert_between $(($(scripts_of 2) - before)) 1 $((20 * ($(member 2 TIME | head -n 1) - began + 1)))
  let_go
  assert_exits 0 "$waiter"
  test -e "$ran"
}
waits_on_all() {
  local i
  for ((i = 1; i <= servers; i++)); do [[ $(member "$i" ZCARD 'dlock:{job}:q') == 1 ]] || return; done
}
scripts_of() {  # <number>
  member "$1" INFO commandstats | sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\),.*/\1/p'
}
