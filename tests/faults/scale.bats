#!/usr/bin/env bats
# Many locks in one store, and many waiters for one lock. tests/long has more of them.
# Only for the build that users install: the static release build.

locks=10000

# Makes locks with a last run. On a server they are copies of a real one; the files of a
# local store need real runs.
setup_file() {
  load ../bats/support
  HOME=$BATS_FILE_TMPDIR DLOCK_CONFIG='' DLOCK_STORE=local:$BATS_FILE_TMPDIR/store \
    xargs -P 2 -I{} "$DLOCK_BIN" run lock-{} -- /bin/true < <(seq "$locks")
}

setup() {
  load ../bats/support
  load redis
  load crowd
  load ../bats/postgres
}

# Runs often enough to fill the history of the lock.
fill_history() {
  local i
  for ((i = 0; i < 25; i++)); do dlock run job -- /bin/true; done
}

use_crowded_local_store() {
  use_private_store
  crowded=local:$BATS_FILE_TMPDIR/store empty=$DLOCK_STORE
}

use_crowded_server() {
  use_redis_store
  dlock run lock -- /bin/true
  redis EVAL 'for _, part in ipairs({"s", "r"}) do
      local data = redis.call("DUMP", "dlock:{lock}:" .. part)
      local left = redis.call("PTTL", "dlock:{lock}:" .. part)
      for i = 1, tonumber(ARGV[1]) do
        redis.call("RESTORE", "dlock:{lock-" .. i .. "}:" .. part, left, data)
      end
    end' 0 "$locks" > /dev/null
  redis DEL 'dlock:{lock}:s' 'dlock:{lock}:r' > /dev/null
  crowded=$DLOCK_STORE
}

# Asserts that all locks are listed with so many system calls, and with little computing: with a step for
# each pair of locks it would be minutes. tests/bench has how long it takes.
assert_listed_cheaply() {  # <most system calls for ten locks>
  local TIMEFORMAT=%3U computed
  DLOCK_STORE=$crowded
  computed=$({ time dlock list > "$BATS_TEST_TMPDIR/list"; } 2>&1)
  assert_equal "$(grep -c '^lock-' "$BATS_TEST_TMPDIR/list")" "$locks"
  assert_between "$((10#${computed//[!0-9]/}))" 0 2000
  strace -f -qq -e signal=none -o "$BATS_TEST_TMPDIR/trace" dlock list > /dev/null
  assert_between "$(wc -l < "$BATS_TEST_TMPDIR/trace")" 100 $((locks * $1 / 10))
}

# Prints the median of the numbers of system calls of five runs, without those of which there are more when
# the machine is busy.
calls_of_run() {  # <store>
  for _ in 1 2 3 4 5; do
    strace -f -qq -e signal=none -o "$BATS_TEST_TMPDIR/trace" dlock --store "$1" run job -- /bin/true
    grep -cvE ' = -1 EAGAIN|epoll_wait\(|sched_yield\(|\+\+\+ exited' "$BATS_TEST_TMPDIR/trace"
  done | sort -n | sed -n 3p
}

# Prints how many commands the server carries out for twenty runs, how many bytes it gets and sends, and the
# sum of the least times that it notes for the scripts, in microseconds.
load_of_runs() {  # <store>
  dlock --store "$1" run job -- /bin/true # which may have to send the scripts
  redis CONFIG SET slowlog-max-len 1000 > /dev/null
  redis CONFIG SET slowlog-log-slower-than 0 > /dev/null
  redis CONFIG RESETSTAT > /dev/null
  redis SLOWLOG RESET > /dev/null
  for _ in {1..20}; do dlock --store "$1" run job -- /bin/true; done
  { redis INFO stats; redis SLOWLOG GET 1000; } | tr -d '\r' | awk -F: '/^total_commands_processed/ { n = $2 }
    /^total_net_(in|out)put_bytes/ { bytes += $2 }
    $0 == "EVALSHA" { took = last; getline; if (!($0 in least) || took + 0 < least[$0]) least[$0] = took + 0 }
    { last = $0 }
    END { for (script in least) sum += least[script]; print n, bytes, sum }'
}

@test "ten thousand embedded locks are listed with little work" {
  use_crowded_local_store

  assert_listed_cheaply 200
}

@test "ten thousand locks on a server are listed with little work, not one after another" {
  use_crowded_server

  assert_listed_cheaply 5
}

@test "ten thousand locks on PostgreSQL are listed with little work, not one after another" {
  use_postgres_store
  dlock run lock -- /bin/true
  sql "INSERT INTO dlock.lock SELECT l.namespace, 'lock-' || i, l.version, l.format, l.state, l.runs, l.refused, l.due, l.keep_until
    FROM dlock.lock l, generate_series(1, $locks) i"
  crowded=$DLOCK_STORE

  assert_listed_cheaply 5
}

@test "an embedded run costs no more with ten thousand locks and a full history" {
  use_crowded_local_store
  DLOCK_STORE=$crowded fill_history

  dlock --store "$empty" run job -- /bin/true
  assert_between "$(calls_of_run "$crowded")" 50 $(($(calls_of_run "$empty") + 5))
}

@test "a run on a server costs no more with ten thousand locks and a full history" {
  use_crowded_server
  fill_history

  read -r commands bytes took <<< "$(load_of_runs "$crowded")"
  # Another database of the same server is empty.
  read -r few_commands few_bytes took_there <<< "$(load_of_runs "$crowded?db=1")"
  assert_between "$commands" 100 "$few_commands"
  assert_between "$bytes" 2000 $((few_bytes * 12 / 10))
  assert_between "$took" 20 $((took_there * 2))
}

# Asserts that 200 waiters all get their turn, in order, and use little memory.
assert_all_are_served() {  # <most KiB of memory for each>
  hold crowd
  gather 200 sh -c 'echo "$2" >> "$1"' - "$BATS_TEST_TMPDIR/served"
  line > "$BATS_TEST_TMPDIR/line"
  memory=$(memory_of_each)

  disperse

  assert_equal "$(wc -l < "$BATS_TEST_TMPDIR/line")" 200
  cmp "$BATS_TEST_TMPDIR/line" "$BATS_TEST_TMPDIR/served"
  assert_between "$memory" 50 "$1"
}

@test "200 waiters for an embedded lock all get their turn, in order, with little memory" {
  use_private_store

  assert_all_are_served 600
}

@test "200 waiters for a lock on a server all get their turn, in order, with little memory" {
  use_redis_store

  assert_all_are_served 600
}

sessions() { sql "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'"; }
few_sessions() { (($(sessions) <= 8)); }
are_served() { note_sessions && [[ $(wc -l < "$BATS_TEST_TMPDIR/served") == "$1" ]]; }  # <number>
note_sessions() {
  local now
  now=$(sessions)
  ((now <= most)) || most=$now
}

# Ends the holder, and asserts that all waiters are served in time with few sessions.
assert_served_with_few_sessions() {  # <number> <seconds> <most sessions>
  local started
  most=0
  : > "$BATS_TEST_TMPDIR/served"
  let_go
  started=$(now_ms)
  EVENTUALLY_MS=$(($2 * 1000)) eventually are_served "$1"
  echo "# $1 waiters were served in $(($(now_ms) - started)) ms, with at most $most sessions" >&3
  wait "$holder" "${!number_of[@]}"
  ((most <= $3))
}

@test "a hundred waiters for a lock on PostgreSQL take a few sessions, and get their turn in order" {
  use_postgres_store
  for _ in 1 2 3; do dlock run crowd -- sleep 0.3; done
  hold crowd
  gather 100 sh -c 'echo "$2" >> "$1"; sleep 0.3' - "$BATS_TEST_TMPDIR/served"
  line > "$BATS_TEST_TMPDIR/line"

  assert_served_with_few_sessions 100 150 60

  cmp "$BATS_TEST_TMPDIR/line" "$BATS_TEST_TMPDIR/served"
}

# They had no reason to expect that, and are away.
@test "waiters on PostgreSQL do not wait long for each other if runs suddenly take no time" {
  use_postgres_store
  hold crowd
  gather 150 sh -c 'echo "$2" >> "$1"' - "$BATS_TEST_TMPDIR/served"
  eventually few_sessions

  assert_served_with_few_sessions 150 120 60
}
