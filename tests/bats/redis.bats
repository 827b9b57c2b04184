#!/usr/bin/env bats
# Locks on a Redis server: what they have in common with local: and what is specific to them.
# shellcheck disable=SC2086  # words

setup() { load support && load ../faults/redis && use_redis_store; }

short=(--ttl 3s --store-timeout 900ms)  # for leases that have to expire

started() { grep -qsx "$1" "$order"; }

fence_of_a_run() { dlock run job -- printenv DLOCK_FENCE; }

# --- The queue ---

# Makes the lock look as if it had just been granted and its waiters had just checked it.
make_quick() {  # <name>
  redis EVAL "
    local t = redis.call('TIME')
    local function at(ms) return string.format('%.0f', t[1] * 1000000 + t[2] + ms * 1000) end
    local function set_time(hash, pattern, to)
      local all = redis.call('HGETALL', hash)
      for i = 1, #all, 2 do
        redis.call('HSET', hash, all[i], (string.gsub(all[i + 1], pattern, '%1 ' .. to)))
      end
    end
    set_time(KEYS[1] .. ':h', '^(%a %d+ %d+) %d+', at(60000))
    set_time(KEYS[1] .. ':w', '^(%a %d+) %d+ %d', at(90000) .. ' 3')" 1 "dlock:{$1}"
}

scripts_run() { redis INFO commandstats | sed -n 's/^cmdstat_evalsha:calls=\([0-9]*\).*/\1/p'; }

@test "a break reaches a holder whose lock was granted by the release" {
  # On a busy machine the release may be too slow, and then the waiter has to claim the lock.
  for _ in {1..20}; do
    hold job
    queue job --ttl 10m -- sleep 600
    make_quick job
    redis CONFIG RESETSTAT
    let_go
    eventually holds_job "$waiter"
    if (($(scripts_run) == 1)); then # the release
      # A renewal is due after 200 s.
      run timeout 60 dlock break job --yes
      assert_status 0
      assert_exits 76 "$waiter"
      return
    fi
    kill -TERM "$waiter"
    assert_exits 143 "$waiter"
  done
  return 1
}

@test "a release hands no lock off of which a lease was restored, because its waiter has to look at all of its state" {
  for _ in {1..5}; do
    hold job
    queue job -- sleep 60
    make_quick job
    redis HSET 'dlock:{job}:s' reclaimed '1 '
    redis CONFIG RESETSTAT
    let_go
    eventually holds_job "$waiter"

    (($(scripts_run) > 1)) # the release, and the claim of the waiter
    kill -TERM "$waiter"
    assert_exits 143 "$waiter"
  done
}

holds_job() { redis HVALS 'dlock:{job}:h' | grep -q "\"pid\":$1[,}]" && [[ -n $(pgrep -P "$1") ]]; }

# --- Locks of other programs on the same key ---

# Take and release the lock as redis-py's Lock and other programs do.
take_by_hand() { redis SET "dlock:{job}" theirs NX "$@"; }  # [PX <ms>]

give_back_by_hand() {
  redis EVAL 'if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1]) else return 0 end' 1 "dlock:{job}" theirs
}

@test "a lock that another program holds is refused with 75, and shown with another program" {
  take_by_hand PX 60000

  run dlock run job -- echo started

  assert_message 75 'held by another program, expires in '

  run dlock status --json job

  assert_status 0
  assert_equal "$(json '"\(.state) \(.holders[0].pid) \(.holders[0].host)"')" 'held null null'
  assert_between "$(json '.holders[0].expires_in_ms')" 20000 60000
  run dlock status job
  assert_output_contains 'another program'
  run dlock list
  assert_output_contains 'another program'

  dlock run -w 100ms job -- true || true

  assert_equal "$(redis GET 'dlock:{job}')" theirs

  redis DEL 'dlock:{job}'
  take_by_hand

  run dlock run job -- echo started

  assert_message 75 'another program, does not expire'
}

@test "a waiter gets another program's lock when it is released or expires, even if it was taken from a run" {
  take_by_hand
  queue job -- "${noting[@]}" "$order" next

  assert_equal "$(give_back_by_hand)" 1

  eventually started next

  rm "$order"
  eventually is_free job
  take_by_hand PX 2000
  queue job -- "${noting[@]}" "$order" next

  eventually started next

  rm "$order"
  eventually is_free job
  hold job "${short[@]}"
  queue job -- "${noting[@]}" "$order" next
  redis SET 'dlock:{job}' theirs PX 1500
  let_go

  eventually started next
}

@test "another program can take no lock that a run holds, nor release it, until all have released it" {
  hold job
  assert_equal "$(take_by_hand PX 60000)" ''
  assert_equal "$(give_back_by_hand)" 0
  is_held job
  redis FLUSHALL
  hold job -n 3
  assert_equal "$(take_by_hand PX 60000)" ''
  redis FLUSHALL

  hold job -s
  first=$holder
  assert_equal "$(take_by_hand PX 60000)" ''
  hold job -s
  let_go
  assert_exits 0 "$holder"
  let_go "$first"
  assert_exits 0 "$first"

  assert_equal "$(take_by_hand PX 60000)" OK
}

@test "a key that is not a lock is refused, and list skips it" {
  redis RPUSH 'dlock:{job}' 1

  run dlock run job -- echo started
  assert_message 78 "the lock's key does not hold a lock"
  run dlock status job
  assert_message 78 "the lock's key does not hold a lock"

  redis FLUSHALL
  redis RPUSH 'dlock:{no lock}' 1
  redis SET 'dlock:{' 1
  dlock run job -- true

  assert_equal "$(dlock list --json | jq -r '.[].name')" job
}

@test "a record of a lock that cannot be read hides no other lock from history, list and its metrics" {
  dlock run job -- true
  dlock run other -- true
  dlock run third -- false || redis HSET 'dlock:{third}:s' good '1 {'
  redis RPUSH 'dlock:{job}:r' '1 {'

  for words in 'list --prometheus' 'history --json' 'history job'; do
    run dlock $words
    assert_status 69
    assert_output_contains 'dlock: warning: job: damaged records of runs in dlock:{job}:r: 1'
    [[ $output == *'"other"'* || $words$output == *job*'exit 0'* ]]
    [[ $words != list* || $output == *'dlock_incomplete{namespace="dlock"} 1'*'warning: third: '* ]]
  done
}

# --- Records that others wrote ---

# Nests the JSON in all records of the lock `job` 100,000 levels deep.
deepen_records() {
  redis EVAL '
    local deep = "{\"host\":\"h\",\"command\":" .. string.rep("[", 100000) ..
      string.rep("]", 100000) .. "}"
    for _, key in ipairs({KEYS[1] .. ":h", KEYS[1] .. ":w"}) do
      for _, field in ipairs(redis.call("HKEYS", key)) do
        local record = redis.call("HGET", key, field)
        redis.call("HSET", key, field, record:sub(1, record:find("{") - 1) .. deep)
      end
    end
    local runs = KEYS[1] .. ":r"
    for i = 1, redis.call("LLEN", runs) do
      local record = redis.call("LINDEX", runs, i - 1)
      redis.call("LSET", runs, i - 1, record:sub(1, record:find("{") - 1) .. deep)
    end' 1 'dlock:{job}'
}

@test "deeply nested JSON in the records of a lock ends no verb by a signal, on a small stack either" {
  dlock run job -- true
  hold job
  queue job -- true
  deepen_records

  for limit in unlimited 8192 256; do
    ulimit -S -s "$limit"
    run dlock status job
    assert_status 0
    run dlock status --json job
    assert_equal "$(json '"\(.state) \(.holders | length) \(.waiters | length)"')" 'held 1 1'
    run dlock list --json
    assert_equal "$(json '.[].name')" job
    run dlock history job
    assert_status 0
    run dlock run job -- true
    assert_status 75
    run dlock run --dedupe 1h job -- true
    assert_status 0
    run dlock acquire job
    assert_status 75
  done
  ulimit -S -s 8192

  run dlock break --yes job
  assert_status 0
  assert_exits 76 "$holder"
}

# --- Names ---

long_name=$(printf 'x%.0s' {1..255})
hostile_names=('a}b{c' '{}' '}' '{' 'a b' '*?[a-z]' '%2A' ':h' $'"\'\\' '../../$(id)' 'grün' "$long_name")

@test "all keys of a hostile name are in the namespace and in one slot of a cluster" {
  for name in "${hostile_names[@]}"; do
    redis FLUSHALL
    dlock acquire "$name"
    queue "$name" -- true

    # Not the names of all locks, which a cluster does not have.
    redis --raw KEYS '*' | grep -vx 'dlock:locks' > "$said"

    # A cluster hashes what is between the first { and the first } after it.
    mapfile -t keys < "$said"
    ((${#keys[@]} >= 5))
    tag=${keys[0]#'dlock:{'}
    tag=${tag%%\}*}
    [[ -n $tag && $tag != *'{'* ]]
    for key in "${keys[@]}"; do [[ $key == "dlock:{$tag}" || $key == "dlock:{$tag}:"* ]]; done
    kill -KILL "$waiter"
  done
}

@test "special characters in a namespace are taken literally" {
  redis ACL SETUSER dlock '~*'
  dlock run job -- true
  dlock --namespace 'a{b}*:c' run job -- true

  assert_equal "$(dlock --namespace 'a{b}*:c' list --json | jq 'length')" 1
  assert_equal "$(dlock --namespace '*' list --json)" '[]'
}

@test "a lock in another database is another lock, and one that the server does not have is refused" {
  hold job

  run dlock --store "$DLOCK_STORE?db=3" run job -- echo started

  assert_equal "$status $output" '0 started'
  assert_equal "$(redis -n 3 EXISTS 'dlock:{job}:s')" 1

  run dlock --store "$DLOCK_STORE?db=99" run job -- echo started

  assert_message 78 'no database 99'
}

# --- Fences and scripts ---

@test "fences grow even if the clock goes back, as long as the server keeps the last one" {
  fence=$(($(fence_of_a_run) + 3600000000))
  redis HSET 'dlock:{job}:s' fence "$fence"

  assert_equal "$(fence_of_a_run)" $((fence + 1))
}

# Above 2^52, no clock explains a fence.
@test "a lock with an invalid or the greatest possible fence is refused, and its key is named" {
  for last in 4503599627370496 9007199254740992 18446744073709551615 nonsense -1; do
    redis HSET 'dlock:{job}:s' fence "$last"

    for mode in '' '-s -w 1s' '-n 2'; do
      run dlock run $mode job -- echo started
      assert_message 78 'dlock:{job}:s'
    done
    for verb in status check; do
      DLOCK_FENCE=1 run dlock "$verb" job
      assert_message 78 'dlock:{job}:s'
    done
    run dlock list
    assert_message 69 'dlock:{job}:s'
    # The other keys, with :t:, make the server refuse requests that arrive late.
    assert_equal "$(redis KEYS 'dlock:{job}*' | grep -v ':t:')" 'dlock:{job}:s'
  done
}

@test "doctor finds a fence that is far ahead, and the lock is well when it is removed" {
  for far in 9007199254740989 $((${EPOCHREALTIME/[.,]/} + 33 * 86400000000)); do
    redis HSET 'dlock:{job}:s' fence "$far"
    run dlock doctor
    assert_output_contains "dlock:{job}:s has fence $far: implausibly far ahead of the clock"

    redis HDEL 'dlock:{job}:s' fence

    run dlock doctor
    [[ $output != *'far ahead'* ]]
    (($(fence_of_a_run) <= ${EPOCHREALTIME/[.,]/}))
  done
}

@test "the greatest possible fence is granted once, and the next waiter is refused" {
  redis HSET 'dlock:{job}:s' fence 4503599627370495
  hold job
  assert_equal "$(look job '.holders[0].fence')" 4503599627370496
  dlock run -w 60s job -- echo started > "$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
  next=$!
  eventually is_queued_or_refused "$next"

  let_go
  assert_exits 0 "$holder"

  assert_exits 78 "$next"
  assert_equal "$(redis EXISTS 'dlock:{job}' 'dlock:{job}:q')" 0
}

is_queued_or_refused() { has_ended "$1" || is_queued job "$1"; }

@test "fences grow even if the server lost its data" {
  fence_of_a_run > "$said"
  redis FLUSHALL
  fence_of_a_run >> "$said"
  restart_redis
  fence_of_a_run >> "$said"

  sort -c -u -n "$said"
}

@test "a server that lost the scripts gets them again, once, for a lease that is renewed and released as well" {
  dlock run job -- true
  redis SCRIPT FLUSH
  before=$(calls_of eval)

  dlock run job -- true
  assert_equal $(($(calls_of eval) - before)) 2  # one to acquire and one to release
  dlock run job -- true
  assert_equal $(($(calls_of eval) - before)) 2

  hold job "${short[@]}"
  redis SCRIPT FLUSH

  await_renewal job
  let_go

  assert_exits 0 "$holder"
  is_free job
}

# --- Login ---

# Runs dlock with -v, so that it prints as much as possible.
run_verbosely() { run timeout 60 dlock run -v job -- env; }

anybody_may_do_everything() { redis ACL SETUSER default on nopass '~*' '&*' +@all; }

# Asserts that the server has got no commands except logins since start_monitor.
assert_told_nothing() { assert_equal "$(told)" ''; }

@test "the user and the password can be options, the environment or a file, and appear nowhere" {
  run dlock run job -- dlock status job
  assert_status 0

  file=$DLOCK_PASSWORD_FILE
  unset DLOCK_USER DLOCK_PASSWORD_FILE
  run dlock --user dlock --password-file "$file" run job -- echo started
  assert_equal "$status $output" '0 started'

  export DLOCK_USER=dlock DLOCK_PASSWORD=$redis_password
  run_verbosely
  assert_status 0
  refute_output_contains "$redis_password"
  run dlock status --json job
  refute_output_contains "$redis_password"
}

@test "a login that is wrong, unknown, missing or without a password is refused, and nothing is sent as the default user" {
  unset DLOCK_USER DLOCK_PASSWORD_FILE
  run dlock run job -- echo started
  assert_message 77 'password required: use --password-file or DLOCK_PASSWORD'

  anybody_may_do_everything
  start_monitor "$said"
  export DLOCK_USER=dlock
  run dlock run job -- echo started
  assert_message 78 "no password for user 'dlock'"
  DLOCK_USER=stranger DLOCK_PASSWORD=any run dlock run job -- echo started
  assert_message 77 'login refused'
  # A wait ends at once.
  export DLOCK_PASSWORD=wrong
  for words in 'run job true' 'run -w forever job true' 'status job' 'list'; do
    run timeout 60 dlock $words
    assert_message 77 'login refused'
    refute_output_contains wrong
  done
  assert_told_nothing
}

@test "a user without permission to name connections can use locks" {
  redis ACL SETUSER dlock '-client|setname'
  hold job --ttl 3s --store-timeout 900ms
  was_refused() { (($(redis INFO commandstats | grep -c 'cmdstat_client|setname:.*rejected_calls=[2-9]') == 1)); }

  eventually was_refused # on the connection for renewals as well

  let_go
  assert_exits 0 "$holder"
}

# --- Cost ---

# Prints how often dlock writes to the server in a run. LeakSanitizer does not work under
# strace.
writes_of_a_run() {
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 strace -qq -y -o "$said" \
    -e trace=write,writev,sendto,sendmsg dlock run job -- true
  grep -c '(\([0-9]*\)<\(socket\|UNIX\|TCP\)' "$said"
}

@test "an uncontended run writes to the server twice, three times with a login, and sends two commands besides" {
  dlock run job -- true
  assert_equal "$(writes_of_a_run)" 3

  start_monitor "$BATS_TEST_TMPDIR/monitored"
  dlock run job -- true
  assert_equal "$(told | cut -d '"' -f 2 | tr '\n' ' ')" 'EVALSHA EVALSHA '

  anybody_may_do_everything
  unset DLOCK_USER DLOCK_PASSWORD_FILE
  assert_equal "$(writes_of_a_run)" 2
}

names_listed() { dlock list --json | jq -r '[.[].name] | join(" ")'; }
lists() { [[ $(names_listed) == "$1" ]]; }  # <names>

@test "in a large database, list, history and --prometheus look where the names of locks are" {
  dlock run a -- true
  hold b
  redis EVAL 'for i = 1, 100000 do redis.call("SET", "other:" .. i, 1) end' 0
  redis CONFIG RESETSTAT

  assert_equal "$(names_listed)" 'a b'
  assert_equal "$(dlock history | grep -c ' a ')" 1
  dlock list --prometheus | grep -q '^dlock_lock_holders{name="b",'

  # --prometheus looks twice: for the locks, and for their runs.
  (($(calls_of scan) <= 4 * 40))
}

@test "a lock that is missing among the names is found by a number of looks, and stays found" {
  dlock run a -- true
  redis EVAL 'for i = 1, 30000 do redis.call("SET", "other:" .. i, 1) end' 0
  dlock run b -- true
  redis ZREM dlock:locks a
  redis SET 'dlock:{foreign}' someone PX 60000

  for _ in {1..5}; do dlock list > /dev/null; done
  assert_equal "$(names_listed)" 'a b foreign'
  assert_equal "$(redis ZRANGE dlock:locks 0 -1)" $'a\nb\nforeign'
}

@test "list needs no names of locks: they may be lost, another kind of key, or forbidden" {
  dlock run a -- true
  redis EVAL 'for i = 1, 30000 do redis.call("SET", "other:" .. i, 1) end' 0
  local command
  for command in 'DEL dlock:locks' 'SET dlock:locks x'; do
    redis $command
    assert_equal "$(names_listed)" a
    dlock run b -- true
    # An index that had to be made anew has only b. Each look scans a part of the database for others.
    eventually lists 'a b'
    redis DEL 'dlock:{b}' 'dlock:{b}:s' 'dlock:{b}:r' 'dlock:{b}:h'
  done
}

@test "the names of locks go away when they are long out of use" {
  dlock run a -- true

  (($(redis PTTL dlock:locks) > 2000000000))
  redis ZADD dlock:locks 1 ancient
  dlock run b -- true
  assert_equal "$(redis ZRANGE dlock:locks 0 -1)" $'a\nb'
}

# Prints how many commands clients have sent, without logins and calls from scripts.
sent() {
  redis INFO commandstats |
    awk -F '[:=,]' '/^cmdstat_(evalsha|eval|blpop|client|scan)/ { sum += $3 } END { print sum + 0 }'
}

# Asserts for some seconds that no more commands are sent to the server than so many in a second of its
# own clock: the test may be held up.
assert_rate() {  # <commands a second at most> <seconds>
  local before began
  began=$(redis TIME | head -n 1)
  before=$(sent)
  pause "$2"
  assert_between $(($(sent) - before)) 0 $(($1 * ($(redis TIME | head -n 1) - began + 1)))
}
has_waiters() { (($(redis ZCARD 'dlock:{job}:q') == $1)); }
all_listen() { redis INFO clients | grep -q "^blocked_clients:$1[^0-9]"; }

# Starts this many waiters, which wait for longer than the test takes. An earlier run sends
# the scripts to the server. Each waiter asks again after 40 to 45 s, so the test must be over
# by then.
let_wait() {  # <number>
  dlock run another -- true
  hold job --ttl 10m
  local number
  for ((number = 0; number < $1; number++)); do
    dlock run -w 10m --ttl 10m job -- sh -c 'echo started >> "$0"; exec sleep 600' "$order" 3>&- &
  done
  eventually has_waiters "$1"
  eventually all_listen "$1"
}

@test "three waiters for another program's lock send at most 15 commands a second" {
  take_by_hand
  for _ in 1 2 3; do queue job -- true; done

  assert_rate 15 2
}

@test "idle waiters send few commands, and a release starts one of them and wakes only a few others" {
  let_wait 12

  # At most four a second: the first two ask every 2.5 s and listen again.
  assert_rate 4 3

  before=$(sent)
  began=$(redis TIME | head -n 1)

  let_go
  eventually started started

  # Besides the waiter whose turn it is, the promise wakes the first one that listens and the
  # last one in the queue, and the grant wakes the one that moves up to the first two places.
  # Each of them asks once and listens again. The first two waiters also ask every 2.5 s.
  assert_between "$(calls_of rpush)" 1 5
  pause 1
  assert_between $(($(sent) - before)) 1 $((16 + 2 * ($(redis TIME | head -n 1) - began + 1)))
  assert_equal "$(wc -l < "$order")" 1
}
