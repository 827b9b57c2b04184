#!/usr/bin/env bats
# --slots and --shared: what the runs that hold a lock together see, and what happens if some
# of them are killed. Who is granted such a lock when is tested in tests/contract.

setup() { load support && use_private_store; }

# --- Slots ---

@test "a run is refused with 75 if all slots are held and 78 if there are others, and DLOCK_SLOT is that of the command" {
  hold pool -n 2
  hold book -s
  {
    run dlock run -n 2 pool -- sh -c 'echo "slot $DLOCK_SLOT"'
    assert_equal "$output" 'slot 1'
    run dlock run job -- sh -c 'echo "slot $DLOCK_SLOT"'
    assert_equal "$output" 'slot 0'
    run dlock run -s book -- sh -c 'echo "slot $DLOCK_SLOT"'
    assert_equal "$output" 'slot 0'
  }

  for wait in '' '-w 20s'; do
    # shellcheck disable=SC2086
    run timeout 60 dlock run $wait -n 3 pool -- echo started
    assert_message 78 'in use with 2 slots, not 3'
  done
  hold pool -n 2
  run dlock run -n 2 pool -- true
  assert_message 75

  # -n 1 is the same as no --slots.
  hold job
  run dlock run -n 1 job -- true
  assert_status 75
}

# Waiters for a killed holder have timers: the kernel frees the lock of a dead process a moment after
# it says that it is dead, so they ask again some times within milliseconds.

@test "the slots of two killed holders go at once to two waiters" {
  hold pool -n 2
  victims=("$holder" "$command")
  hold pool -n 2
  victims+=("$holder" "$command")
  # The first waiter keeps its slot, so the second one needs the other.
  queue pool -n 2 -- sleep 600
  queue pool -n 2 -- touch "$began"

  kill -KILL "${victims[@]}"

  eventually test -e "$began"
}

@test "a second waiter that became the first one notices when a holder is killed later" {
  hold pool -n 2
  first=$holder
  hold pool -n 2
  queue pool -n 2 -- sleep 600
  queue pool -n 2 -- touch "$began"
  let_go "$first"
  assert_exits 0 "$first"
  eventually is_alone_in_queue

  kill -KILL "$holder" "$command"

  eventually test -e "$began"
}

is_alone_in_queue() { [[ $(look pool '.waiters | length') == 1 ]]; }

# --- Readers and writers ---

@test "a waiting writer runs at once when the last of two readers ends" {
  hold book -s
  first=$holder
  hold book -s
  queue_without_timers book -- touch "$began"
  let_go "$first"
  assert_exits 0 "$first"
  [[ ! -e $began ]]

  let_go

  eventually test -e "$began"
}

@test "when a reader, or a writer in the queue, is killed, those that it held off run at once" {
  hold book -s
  reader=("$holder" "$command")
  queue book -- true
  writer=$waiter
  queue book -s -- touch "$began"
  kill -KILL "$writer"
  eventually test -e "$began"
  run dlock run -s book -- echo started
  assert_equal "$status $output" '0 started'

  rm "$began"
  queue book -- touch "$began"
  kill -KILL "${reader[@]}"
  eventually test -e "$began"
}
