#!/usr/bin/env bats
# Runs that replace or supersede others on a server while something fails.

setup() {
  load support
  load ../faults/redis
  export -f has_ended  # for commands that check whether another one has ended
  use_redis_store --appendonly yes --appendfsync always
  cd "$BATS_TEST_TMPDIR" || return
  short=(--ttl 3s --store-timeout 900ms)  # for leases that have to expire
}

next=(bash -c 'has_ended "$1" && touch ran' -)  # <pid of the process that must have ended>

@test "--replace of a stopped or killed run begins when the lease has expired and the command has ended" {
  hold job "${short[@]}"
  kill -STOP "$holder"

  queue job --replace -- "${next[@]}" "$command"

  assert_exits 0 "$waiter"
  test -e ran

  rm ran
  hold job "${short[@]}"
  kill -STOP "$holder"
  queue job --replace -- "${next[@]}" "$command"

  kill -KILL "$holder"

  assert_exits 0 "$waiter"
  test -e ran
}

@test "a restarted server still knows which run is being replaced, and which waiter was superseded" {
  dlock run -t 10m -k 60s job -- bash -c 'trap ": > termed" TERM; echo $$ > pid
    until [[ -e finish ]]; do sleep 0.05; done' 3>&- &
  holder=$!
  eventually test -s pid
  queue job --replace -- "${next[@]}" "$(< pid)"
  eventually test -e termed

  restart_redis
  touch finish

  assert_exits 76 "$holder"
  assert_exits 0 "$waiter"
  test -e ran

  hold job
  queue job --supersede -q -- touch older
  older=$waiter
  kill -STOP "$older"
  queue job --supersede -- true
  restart_redis

  kill -CONT "$older"

  assert_exits 75 "$older"
  let_go
  assert_exits 0 "$waiter"
  refute test -e older
}

@test "the user who takes the lock is named if known, and the name is escaped" {
  hold job --report report 2> said
  redis HSET 'dlock:{job}:h' "$(redis GET 'dlock:{job}')" \
    "$(redis HGET 'dlock:{job}:h' "$(redis GET 'dlock:{job}')" | sed -e 's/ h {/ b {/' -e 's/}$/,"broken_by":{"user":"\\u001b[2J","host":"web2"}}/')"
  redis RPUSH "dlock:{job}:b:$(look job '.holders[0].fence')" 1

  assert_exits 76 "$holder"
  grep -qF 'lost the lock: \x1b[2J@web2 took the lock with dlock break; the command was stopped' said

  # As an earlier version breaks a lock.
  hold job 2> said
  redis HSET 'dlock:{job}:h' "$(redis GET 'dlock:{job}')" \
    "$(redis HGET 'dlock:{job}:h' "$(redis GET 'dlock:{job}')" | sed 's/ h {/ b {/')"
  redis RPUSH "dlock:{job}:b:$(look job '.holders[0].fence')" 1

  assert_exits 76 "$holder"
  grep -qF 'lost the lock: it was taken with dlock break; the command was stopped' said
}

@test "runs with --supersede and --replace leave no key without a TTL" {
  hold job
  queue job --supersede -q -- true
  queue job --supersede --max-queue 3 -q -- true
  dlock run --wait 60s --replace --supersede -q job -- true
  assert_exits 76 "$holder"

  for key in $(redis --scan); do
    assert_between "$(redis PTTL "$key")" 1 2865000000
  done
}

# Prints how many calls of commands the server has counted, apart from INFO, AUTH and CLIENT.
script_calls() {
  redis INFO commandstats | sed -n 's/^cmdstat_\([a-z|]*\):calls=\([0-9]*\),.*/\1 \2/p' |
    grep -v -e '^info' -e '^auth' -e '^client' | awk '{ n += $2 } END { print n }'
}

# Sets $calls to the number of calls that four runs cause.
count_script_calls() {  # [<option>...]
  local before
  dlock run --wait 5s "$@" other -- true
  before=$(script_calls)
  for _ in 1 2 3 4; do dlock run --wait 5s "$@" other -- true; done
  calls=$(($(script_calls) - before))
}

@test "for a free lock, --replace and --max-queue cost no extra calls, --supersede one to six" {
  count_script_calls
  plain=$calls

  count_script_calls --replace --max-queue 3

  assert_equal "$calls" "$plain"
  count_script_calls --supersede
  assert_between $((calls - plain)) 4 24
}
