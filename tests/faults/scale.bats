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

# Asserts that all locks are listed in less than a second, in the best of three tries.
assert_listed_at_once() {
  local count=0 started took least=''
  DLOCK_STORE=$crowded
  while ((++count <= 3)); do
    started=$(now_ms)
    dlock list > "$BATS_TEST_TMPDIR/list"
    took=$(($(now_ms) - started))
    ((${least:=$took} < took)) || least=$took
  done
  assert_equal "$(grep -c '^lock-' "$BATS_TEST_TMPDIR/list")" "$locks"
  assert_between "$least" 0 999
}

# Prints how many microseconds a run takes.
time_run() {  # <store>
  local started=${EPOCHREALTIME/[.,]/}
  dlock --store "$1" run job -- /bin/true
  echo $((${EPOCHREALTIME/[.,]/} - started))
}

median() { sort -n "$1" | sed -n "$((($(wc -l < "$1") + 1) / 2))p"; }

# Asserts that runs in the first store take hardly longer than in the second, alternating.
assert_no_dearer() {  # <store> <store>
  local round
  for ((round = 0; round < 30; round++)); do
    time_run "$1" >> "$BATS_TEST_TMPDIR/first"
    time_run "$2" >> "$BATS_TEST_TMPDIR/second"
  done
  assert_between "$(median "$BATS_TEST_TMPDIR/first")" 1 \
    $(($(median "$BATS_TEST_TMPDIR/second") * 15 / 10))
}

@test "ten thousand embedded locks are listed in less than a second" {
  use_crowded_local_store

  assert_listed_at_once
}

@test "ten thousand locks on a server are listed in less than a second" {
  use_crowded_server

  assert_listed_at_once
}

@test "ten thousand locks on PostgreSQL are listed in less than a second" {
  use_postgres_store
  dlock run lock -- /bin/true
  sql "INSERT INTO dlock.lock SELECT l.namespace, 'lock-' || i, l.version, l.format, l.state, l.runs, l.refused, l.due, l.keep_until
    FROM dlock.lock l, generate_series(1, $locks) i"
  crowded=$DLOCK_STORE

  assert_listed_at_once
}

@test "an embedded run costs no more with ten thousand locks and a full history" {
  use_crowded_local_store
  DLOCK_STORE=$crowded fill_history

  assert_no_dearer "$crowded" "$empty"
}

@test "a run on a server costs no more with ten thousand locks and a full history" {
  use_crowded_server
  fill_history

  # Another database of the same server is empty.
  assert_no_dearer "$crowded" "$crowded?db=1"
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
