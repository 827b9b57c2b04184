#!/usr/bin/env bats
# Four contenders request one lock on each kind of store until it was granted a million times
# on `local:` and 200,000 times on the others, or DLOCK_TEST_GRANTS times on each:
#
#   DLOCK_BIN=build/release/dlock bats tests/long/volume.bats
#
# No two holders overlap, each fence is greater than the one before, and nothing fails.
# Nothing is broken on purpose: failovers.bats and tests/chaos do that.
# shellcheck disable=SC2034  # for and from the helpers

wanted=${DLOCK_TEST_GRANTS:-} # before the tests unset the variables of dlock

setup_file() {
  cc -std=gnu11 -O2 -static -o "$BATS_FILE_TMPDIR/alone" "$BATS_TEST_DIRNAME/alone.c"
}

setup() {
  load ../bats/support
  load ../bats/etcd
  load ../bats/postgres
  load ../faults/redis
  load ../faults/partition
  load ../faults/sentinel
  load ../faults/cluster
  load ../faults/quorum
  yard=$BATS_TEST_TMPDIR/yard
  mkdir "$yard"
}

clean_up() { : > "$yard/stop"; }

# Requests the lock again and again until there are enough grants, or something is wrong.
contend() {  # <option>...
  local code=0
  while [[ ! -e $yard/stop ]]; do
    dlock run -w 60s "$@" job -- "$BATS_FILE_TMPDIR/alone" "$yard/count" 2>> "$yard/said" || code=$?
    ((code == 0)) && continue
    echo "exit code $code" >> "$yard/said"
    : > "$yard/stop"
  done
}

granted() {
  local count=0
  [[ ! -e $yard/count ]] || read -r count _ < "$yard/count" || true
  echo "$count"
}

# After this long without a grant there will be no more.
longest_pause=60

# Whether this many were granted before one failed or all hung.
are_granted() {  # <number>
  local count=0 before=0 moved=$SECONDS
  while ((count < $1)) && [[ ! -e $yard/stop ]]; do
    sleep 0.1
    count=$(granted)
    if ((count > before)); then
      before=$count moved=$SECONDS
    elif ((SECONDS - moved > longest_pause)); then
      echo "no grant within $longest_pause s behind $count" >&2
      return 1
    fi
  done
  [[ ! -e $yard/stop ]]
}

assert_no_overlap() {  # <number of grants> [<option>...]
  local grants=${wanted:-$1} contenders=() started status=0
  started=$(now_ms)
  for _ in 1 2 3 4; do contend "${@:2}" 3>&- & contenders+=("$!"); done
  are_granted "$grants" || status=1
  : > "$yard/stop"
  wait "${contenders[@]}"
  echo "# $(granted) grants, $(($(granted) * 1000 / ($(now_ms) - started))) a second" >&3
  ((status == 0)) || cat "$yard/said" >&2
  return "$status"
}

@test "a lock of local: is held by one at a time, a million times" {
  use_private_store
  assert_no_overlap 1000000
}

@test "a lock on a server is held by one at a time, 200,000 times" {
  use_redis_store
  assert_no_overlap 200000
}

@test "a lock on servers with sentinels is held by one at a time, 200,000 times" {
  use_sentinel_store
  assert_no_overlap 200000 --replicas all
}

@test "a lock in a cluster is held by one at a time, 200,000 times" {
  use_cluster_store
  assert_no_overlap 200000 --replicas all
}

@test "a lock on a quorum is held by one at a time, 200,000 times" {
  use_quorum_store 3
  assert_no_overlap 200000
}

@test "a lock on three members of etcd is held by one at a time, 200,000 times" {
  # Or each run would take longer than the one before (docs/operating.md).
  etcd_options=(--auto-compaction-retention 1m)
  use_etcd_store 3
  assert_no_overlap 200000
}

# The pages that the table of locks takes, in KiB.
size_of_locks() { sql "SELECT pg_total_relation_size('dlock.lock') / 1024"; }

@test "a lock on PostgreSQL is held by one at a time, 200,000 times, and its table stays small" {
  use_postgres_store
  assert_no_overlap 200000
  (($(size_of_locks) <= 1024)) || { echo "$(size_of_locks) KiB" >&2; return 1; }
}

@test "while a transaction such as a dump is open, a run takes at most ten times as long" {
  use_postgres_store
  dlock run job -- true
  mkfifo "$BATS_TEST_TMPDIR/dump"
  "$postgres_programs/psql" -Xq "$(postgres_url 1 postgres)" < "$BATS_TEST_TMPDIR/dump" > /dev/null 3>&- &
  exec {dump}> "$BATS_TEST_TMPDIR/dump"
  echo 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM dlock.lock;' >&"$dump"
  before=$(time_runs)

  assert_no_overlap 10000

  after=$(time_runs)
  echo "# 20 runs took $before ms before, $after ms after; $(size_of_locks) KiB" >&3
  ((after <= 10 * before))
  exec {dump}>&-
}
time_runs() {
  local begin
  begin=$(now_ms)
  for _ in {1..20}; do dlock run job -- true; done
  echo $(($(now_ms) - begin))
}
