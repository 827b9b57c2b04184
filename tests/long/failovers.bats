#!/usr/bin/env bats
# Many claims for one lock, on servers that are killed, paused, failed over and moved all the
# time, until it was granted DLOCK_TEST_GRANTS (100000) times in each of the tests:
#
#   DLOCK_BIN=build/release/dlock bats tests/long/failovers.bats
#
# There is a fault every DLOCK_TEST_BETWEEN_FAULTS (1000) grants.
#
# With --replicas all no two holders overlap, and fences grow.
# shellcheck disable=SC2154  # the helpers set what is used here

grants=${DLOCK_TEST_GRANTS:-100000}

setup() {
  load ../bats/support
  load ../faults/locks
  load ../faults/redis
  load ../faults/partition
  load ../faults/sentinel
  load ../faults/cluster
  load ../faults/nemesis
}

teardown() {
  stop_fleet
  kill_leftovers
}

# Requests the lock again and again until it was granted often enough.
contend() {
  local code
  while [[ ! -e $yard/stop ]]; do
    code=0
    dlock run -q -w 20s --ttl 6s --replicas all job -- \
      "$DLOCK_SOURCE/tests/faults/critical_section" "$yard" 2>> "$yard/said" || code=$?
    # 69 and 75: nothing was granted in time. 76: it was lost, and the command ended.
    [[ $code =~ ^(0|69|75|76)$ ]] || echo "$code" >> "$yard/failures"
    echo "$code" >> "$yard/codes"
  done
}

has_gone_well() { (($(granted) >= before + between_harms)); }

granted() { [[ -e $yard/fences ]] && wc -l < "$yard/fences" || echo 0; }

# Runs six contenders while a command breaks and repairs the servers, each time after this
# many successful grants.
between_harms=${DLOCK_TEST_BETWEEN_FAULTS:-1000}

assert_nobody_meets_another() {  # <harm>
  local contenders=() harms=0 before
  yard=$BATS_TEST_TMPDIR/yard
  mkdir "$yard"
  for _ in 1 2 3 4 5 6; do contend 3>&- & contenders+=("$!"); done
  while (($(granted) < grants)); do
    "$1" || { echo "not whole again after: $harm" >&2; return 1; }
    harms=$((harms + 1))
    before=$(granted)
    EVENTUALLY_MS=$((60000 + between_harms * 100)) eventually has_gone_well
  done
  : > "$yard/stop"
  wait "${contenders[@]}"
  echo "# $(granted) grants, $harms faults; exit codes:" \
    "$(sort "$yard/codes" | uniq -c | awk '{ print $2 ": " $1 }' | paste -sd ' ')" >&3

  [[ ! -e $yard/violations ]] || { cat "$yard/violations" >&2; return 1; }
  [[ ! -e $yard/failures ]] || { sort "$yard/failures" | uniq -c >&2; return 1; }
  sort -n -c -u "$yard/fences"
}

@test "no two holders overlap while primaries fail over" {
  use_sentinel_store
  assert_nobody_meets_another harm_fleet
}

@test "no two holders overlap while members of a cluster fail over and the slot is moved" {
  use_cluster_store
  assert_nobody_meets_another harm_cluster
}
