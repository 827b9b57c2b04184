#!/usr/bin/env bats
# What the verbs that look at all locks take with 100,000 names, or DLOCK_TEST_NAMES, on each kind
# of store: time, and memory at most.
#
#   DLOCK_BIN=build/release/dlock bats tests/long/names.bats
#
# docs/performance.md has the figures. On a server, the locks are copies of one with a run.

names=${DLOCK_TEST_NAMES:-100000} # before the tests unset the variables of dlock

setup() {
  load ../bats/support
  load ../bats/etcd
  load ../bats/postgres
  load ../faults/locks
  load ../faults/redis
}

teardown() {
  stop_redis
  stop_etcd
  stop_postgres
  kill_leftovers
}

# Asserts that a verb prints at least one line, or element, for each lock, within a time and with
# little memory: 5 kB for each lock, and 100 MB.
assert_bounded() {  # <part of what is about one lock> <verb> [<option>...]
  local seconds kilobytes
  /usr/bin/time -o "$BATS_TEST_TMPDIR/took" -f '%e %M' \
    "$DLOCK_BIN" "${@:2}" --store-timeout 1m > "$BATS_TEST_TMPDIR/printed"
  read -r seconds kilobytes < "$BATS_TEST_TMPDIR/took"
  echo "# ${*:2}: $seconds s, $((kilobytes / 1000)) MB" >&3
  (($(grep -o "$1" "$BATS_TEST_TMPDIR/printed" | wc -l) >= names))
  ((kilobytes <= 100000 + 5 * names))
  ((${seconds%.*} <= 30 + names / 5000))
}

assert_all_bounded() {
  assert_bounded '^lock-' list
  assert_bounded '"name":"lock-' list --json
  assert_bounded '^dlock_lock_holders{name="lock-' list --prometheus
  assert_bounded 'lock-' history --limit 1000000
  run "$DLOCK_BIN" status lock-7
  assert_output_contains 'exit 0'
}

@test "local: with many names" {
  use_private_store
  ((names <= 100000)) || skip 'each needs a run'
  xargs -P 2 -I{} "$DLOCK_BIN" run lock-{} -- /bin/true < <(seq "$names")
  assert_all_bounded
}

@test "Redis with many names" {
  use_redis_store
  dlock run lock -- true
  redis EVAL 'for _, part in ipairs({"s", "r"}) do
      local data = redis.call("DUMP", "dlock:{lock}:" .. part)
      local left = redis.call("PTTL", "dlock:{lock}:" .. part)
      for i = 1, tonumber(ARGV[1]) do
        redis.call("RESTORE", "dlock:{lock-" .. i .. "}:" .. part, left, data)
        redis.call("ZADD", "dlock:locks", 1e9, "lock-" .. i)
      end
    end' 0 "$names" > /dev/null
  assert_all_bounded
}

@test "PostgreSQL with many names" {
  use_postgres_store
  dlock run lock -- true
  sql "INSERT INTO dlock.lock SELECT l.namespace, 'lock-' || i, l.version, l.format, l.state, l.runs, l.refused, l.due, l.keep_until
    FROM dlock.lock l, generate_series(1, $names) i"
  assert_all_bounded
}
