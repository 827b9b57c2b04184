#!/usr/bin/env bats
# The simulation (tests/simulation) with seeds that were not tried before: each night goes on where
# the last one has stopped, in build/simulation.

setup() { load ../bats/support; }

@test "no order of events that the simulation tries breaks a promise" {
  local store pids=() status=0
  mkdir -p "$DLOCK_SOURCE/build/simulation"
  for store in redis quorum sentinel cluster postgres etcd; do
    [[ -s $DLOCK_SOURCE/build/simulation/$store ]] || echo 1000000 > "$DLOCK_SOURCE/build/simulation/$store"
    "$DLOCK_SOURCE/build/release/tests/dlock_simulation" --store "$store" --schedules 10000000 \
      --seconds "${DLOCK_SIMULATION_SECONDS:-3600}" --resume "$DLOCK_SOURCE/build/simulation/$store" &
    pids+=("$!")
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  ((status == 0))
}
