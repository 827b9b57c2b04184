#!/usr/bin/env bats
# Waiters on a server get their turn even if the lock is not released: at the end of its lease, and one promise
# later however many waiters before them were killed or stopped. The server's record of commands is the judge.

setup() { load ../bats/support && load redis && use_redis_store; }

# Kills a dlock with all its processes, so that no process is left to release.
kill_all_of() {  # <pid of dlock>
  local pids=("$1") pid
  for ((i = 0; i < ${#pids[@]}; i++)); do
    for pid in $(pgrep -P "${pids[i]}"); do pids+=("$pid"); done
  done
  kill -STOP "${pids[@]}"
  kill -KILL "${pids[@]}"
}

lines_in() { [[ -e $2 ]] && (($(wc -l < "$2") == $1)); }  # <number> <file>

# Starts this many waiters, for kill_them or stop_them.
queue_those_in_front() {  # <number> [<option of the holder>...]
  hold job "${@:2}"
  in_front=()
  for ((n = 0; n < $1; n++)); do
    dlock run --wait 60s job -- true 3>&- &
    in_front+=($!)
  done
  eventually so_many_wait "$1"
}

so_many_wait() { (($(redis ZCARD 'dlock:{job}:q') == $1)); }

kill_them() {
  local pid
  for pid in "${in_front[@]}"; do kill_all_of "$pid"; done
}

stop_them() { kill -STOP "${in_front[@]}"; }

# Starts more waiters behind those, in this order, and releases the lock.
have_others_served() {  # <kill_them or stop_them> <name>...
  local name how=$1
  shift
  for name; do queue job -- "${noting[@]}" "$order" "$name"; done
  "$how"
  sent_before=$(calls_of evalsha)

  let_go
}

# Asserts that these, and no others, are served in this order.
assert_served() {  # <name>...
  eventually lines_in "$#" "$order"
  assert_equal "$(paste -sd ' ' "$order")" "$*"
}

# The fourth word of a waiter's record says whether it was passed over (1) or called (4).
is_in_state() {  # <pid> <state>
  redis HVALS 'dlock:{job}:w' | grep "\"pid\":$1[,}]" | grep -q "^[xs] [0-9]* [0-9]* $2 "
}

are_heard_of() {
  local pid
  for pid; do
    if is_in_state "$pid" '[14]'; then return 1; fi
  done
}

is_called() { redis HVALS 'dlock:{job}:w' | grep -q '^[xs] [0-9]* [0-9]* 4 '; }

@test "six stopped waiters cost one promise, and get their places back when they continue" {
  queue_those_in_front 6
  have_others_served stop_them first
  assert_served first
  # The next one asks twice in the three seconds of a promise: for six it would be twelve times.
  assert_between $(($(calls_of evalsha) - sent_before)) 2 6
  hold job
  queue job -- "${noting[@]}" "$order" second

  kill -CONT "${in_front[@]}"
  eventually are_heard_of "${in_front[@]}"
  let_go

  assert_exits 0 "$waiter"
  for pid in "${in_front[@]}"; do has_ended "$pid"; done
}

@test "waiters that are slow to answer are not overtaken" {
  queue_those_in_front 1
  for name in first second third; do
    queue job -- "${noting[@]}" "$order" "$name"
    slow+=("$waiter")
  done
  queue job -- "${noting[@]}" "$order" fourth
  kill_them
  let_go
  # Until they are called, but not so long that they do not answer.
  kill -STOP "${slow[@]}"
  eventually is_called
  kill -CONT "${slow[@]}"

  assert_served first second third fourth
}

# Writes its name. The first one then waits until the test releases it.
taking_turns=(sh -c 'echo "$2" >> "$1"; ! mkdir "$1.first" 2> /dev/null || until [ -e "$1.go" ]; do sleep 0.05; done' -)

@test "waiters run, and in order, though the server lost their queue" {
  # A single one as well.
  hold job
  queue job -- "${noting[@]}" "$order" only

  redis FLUSHALL

  assert_served only

  rm "$order"
  hold job
  for name in 0 1 2 3 4 5; do queue job -- "${taking_turns[@]}" "$order" "$name"; done

  redis FLUSHALL

  # The first to check finds a free lock and an empty queue, and notifies the others, which
  # then get their places back.
  eventually lines_in 1 "$order"
  eventually so_many_wait 5
  touch "$order.go"
  eventually lines_in 6 "$order"
  tail -n +2 "$order" | sort -c -n
}

# --- Waiters that are woken without a reason ---

# Puts a relay that edits requests between dlock and the server.
alter_requests() {  # <Perl expression>
  "$DLOCK_SOURCE/tests/faults/altering_relay" "$BATS_TEST_TMPDIR/port" "$redis_socket" '' "$1" 3>&- &
  eventually test -s "$BATS_TEST_TMPDIR/port"
  # shellcheck disable=SC2034
  DLOCK_STORE=redis://127.0.0.1:$(< "$BATS_TEST_TMPDIR/port")
}

# Fills the list on which all waiters of `job` listen.
flood_waiters() {  # <element>
  redis EVAL 'for i = 1, 300000 do redis.call("RPUSH", KEYS[1], ARGV[1]) end' 1 'dlock:{job}:a' "$1"
}

commands_sent() { echo $(($(calls_of blpop) + $(calls_of evalsha) + $(calls_of eval))); }

# Asserts that a waiter of three seconds sends few commands.
assert_waits_calmly() {
  local before
  before=$(commands_sent)
  run dlock run -w 3s job -- true
  assert_status 75
  assert_between $(($(commands_sent) - before)) 1 80
}

@test "a waiter that is woken again and again without a reason, or that the server does not let wait, sends few commands" {
  hold job

  for element in x 100000; do
    flood_waiters "$element"
    assert_waits_calmly
    redis DEL 'dlock:{job}:a'
  done

  alter_requests 's/(BLPOP.*\r\n)(\d+)\.\d+(\r\n)/$1 . "0" x length($2) . ".001" . $3/se'

  assert_waits_calmly

  # shellcheck disable=SC2034  # dlock uses it
  DLOCK_STORE=redis+unix:$redis_socket
  rm "$BATS_TEST_TMPDIR/port"
  alter_requests 'exit if /BLPOP/'

  assert_waits_calmly
}

@test "a holder whose server does not let it listen sends few commands" {
  alter_requests 's/(BLPOP.*\r\n)60(\r\n)/$1.1$2/s'
  hold job --ttl 60s
  eventually has_listened
  before=$(calls_of blpop)
  began=$(redis TIME | head -n 1)

  eventually has_listened $((before + 4))

  # By the server's clock: the test may have been held up.
  assert_between $(($(calls_of blpop) - before)) 0 $(($(redis TIME | head -n 1) - began + 2))
}
has_listened() { (($(calls_of blpop) > ${1:-0})); }  # [<more often than this>]

@test "a waiter that was woken without a reason for a while gets the lock when it is released" {
  hold job
  queue job -- touch "$began"
  flood_waiters x
  eventually has_slowed_down
  redis DEL 'dlock:{job}:a'

  let_go

  assert_exits 0 "$waiter"
  test -e "$began"
}
has_slowed_down() { (($(calls_of blpop) > 12)); }
