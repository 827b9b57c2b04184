#!/usr/bin/env bats
# Many claims for eight locks, on servers that are killed, paused, failed over and moved all
# the time, until the locks were granted DLOCK_TEST_GRANTS (100000) times in each of the tests:
#
#   DLOCK_BIN=build/release/dlock bats tests/long/failovers.bats
#
# or for DLOCK_TEST_MINUTES. There is a fault every DLOCK_TEST_BETWEEN_FAULTS (1000) grants.
#
# With --replicas all no two holders overlap, and fences grow.

# Read here, before the tests unset the variables of dlock.
wanted=${DLOCK_TEST_GRANTS:-100000}
between_faults=${DLOCK_TEST_BETWEEN_FAULTS:-1000}
minutes=${DLOCK_TEST_MINUTES:-1000}

# More than one, so that no processor is idle during a hand-off; each has three contenders.
# The faults are injected where `job` is; other locks may be on the same server.
locks=(job b c d e f g h)

setup_file() {
  local program
  for program in alone crowd; do
    cc -std=gnu11 -O2 -static -o "$BATS_FILE_TMPDIR/$program" "$BATS_TEST_DIRNAME/$program.c" || return
  done
}

setup() {
  load ../bats/support
  load ../faults/redis
  load ../faults/partition
  load ../faults/sentinel
  load ../faults/cluster
  load ../faults/nemesis
  yard=$BATS_TEST_TMPDIR/yard
  mkdir "$yard"
}

clean_up() { : > "$yard/stop"; }

# Sets $count to the number of grants of all locks.
count_grants() {
  local lock number
  count=0
  for lock in "${locks[@]}"; do
    # It is written in one step, but need not exist yet.
    number=0
    [[ ! -e $yard/count.$lock ]] || read -r number _ < "$yard/count.$lock" || true
    count=$((count + number))
  done
}

# Whether there were enough grants, or the time is over.
is_enough() { ((count >= wanted || SECONDS >= minutes * 60)); }

# The longest time without a grant, in seconds. After that, the test fails.
longest_pause=120

# Waits for that many grants. Fails if a contender has failed, or if there are no more grants.
await_grants() {  # <number>
  local count before=0 moved=$SECONDS
  while count_grants; ((count < $1)) && ! is_enough; do
    [[ ! -e $yard/failed ]] || return
    if ((count > before)); then
      before=$count moved=$SECONDS
    elif ((SECONDS - moved > longest_pause)); then
      echo "no grant within $longest_pause s after $count, and after this: $harm" >&2
      return 1
    fi
    sleep 0.2
  done
}

assert_no_overlap() {  # <harm>
  local crowd count=0 harms=0 harm=none status=0
  "$BATS_FILE_TMPDIR/crowd" "$yard" 3 "${locks[@]}" -- \
    dlock run -q -w 20s --ttl 6s --replicas all LOCK -- \
    "$BATS_FILE_TMPDIR/alone" "$yard/count.LOCK" STAY > "$yard/codes" 2>> "$yard/said" 3>&- &
  crowd=$!
  while ((status == 0)) && ! is_enough; do
    await_grants $((count + between_faults)) || { status=1; break; }
    count_grants
    ! is_enough || break
    "$1" || { echo "not recovered from this: $harm" >&2; status=1; }
    harms=$((harms + 1))
  done
  : > "$yard/stop"
  wait "$crowd"
  count_grants
  echo "# $count grants in $SECONDS s, $harms faults; exit codes: $(< "$yard/codes")" >&3
  [[ $status == 0 && ! -e $yard/failed ]] || { grep -v '^$' "$yard/said" | tail -n 20 >&2; return 1; }
}

@test "no two holders overlap while primaries fail over" {
  use_sentinel_store
  assert_no_overlap harm_fleet
}

@test "no two holders overlap while members of a cluster fail over and the slot is moved" {
  use_cluster_store
  assert_no_overlap harm_cluster
}
