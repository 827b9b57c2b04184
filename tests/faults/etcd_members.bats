#!/usr/bin/env bats
# A cluster of three members, of which some fail: locks that survive, locks that are lost,
# and never two holders. A lease lasts six seconds, an election one.
# shellcheck disable=SC2034  # the helpers read etcd_options, and set holder, waiter, hosts

setup() {
  load ../bats/support
  load ../bats/etcd
  load etcd_members
  faults=$BATS_TEST_DIRNAME
}

clean_up() { leave_island; }

lease=(--ttl 6s)

# Asserts that the lock is still held and was renewed, and that the run did not notice
# anything.
assert_lived_through() {  # <number of a member that is well>
  eventually was_renewed "$1" 4
  run dlock run "${lease[@]}" job -- touch "$ran"
  assert_status 75
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason) \(.protected)"')" 'ran null true'
  run dlock run --wait 5s "${lease[@]}" job -- touch "$ran"
  assert_status 0
}

# Sets $leader, and $others to the other two.
use_three_members() {
  use_etcd_store 3
  leader=$(etcd_leader)
  mapfile -t others < <(others_than "$leader")
  export DLOCK_STORE
}

others_than() {  # <number>
  local i
  for i in 1 2 3; do [[ $i == "$1" ]] || echo "$i"; done
}

# --- The leader goes ---

@test "a leader that is stopped and continued costs the run nothing, and grants nothing" {
  use_three_members
  DLOCK_STORE=$(store_from "$leader" "${others[@]}")
  hold job "${lease[@]}" --report "$report"

  freeze_etcd "$leader"
  eventually new_leader "$leader"
  go_on_etcd "$leader"

  for _ in 1 2 3 4 5; do
    run dlock run "${lease[@]}" job -- touch "$ran"
    assert_status 75
  done
  assert_lived_through "${others[0]}"
}

# When a former leader continues, it may end the leases that it knew, which are then revoked here.
assert_no_former_lease_is_needed() {  # [<option of the waiter>...]
  use_three_members
  DLOCK_STORE=$(store_from "${others[@]}" "$leader")
  hold job "${lease[@]}" --report "$report"
  queue job "${lease[@]}" "$@" -- sh -c 'echo > "$1"; sleep 60' - "$order"
  former=$(leases_by "${others[0]}")
  assert_equal "$(wc -l <<< "$former")" 2

  freeze_etcd "$leader"
  eventually new_leader "$leader"
  go_on_etcd "$leader"
  eventually the_holder_has_another
  revoke_at "${others[0]}" "$(head -n 1 <<< "$former")"
  assert_equal "$(leases_by "${others[0]}" | wc -l)" 2
  let_go
  assert_exits 0 "$holder"
  eventually test -e "$order"

  revoke_at "${others[0]}" "$(tail -n 1 <<< "$former")"
  assert_equal "$(leases_by "${others[0]}" | wc -l)" 1
  is_held job
}

@test "after a change of the leader, holders and waiters have leases that no former leader knows" {
  assert_no_former_lease_is_needed
}

@test "after a change of the leader, a waiter with --shared has a lease that no former leader knows" {
  assert_no_former_lease_is_needed --shared
}

the_holder_has_another() {
  [[ $(leases_by "${others[0]}" | head -n 1) != "$(head -n 1 <<< "$former")" ]]
}

# It may not exist any more.
revoke_at() { etcdctl_at "$1" lease revoke "$(printf %x "$2")" > /dev/null 2>&1 || true; }

@test "a cluster without a majority grants nothing, and with -w it is waited for" {
  use_etcd_store 3
  crash_etcd 2 3

  run dlock run --store-timeout 1s job -- touch "$ran"
  assert_message 69
  dlock run --wait 30s --store-timeout 1s job -- touch "$ran" 2> "$said" 3>&- &
  waiter=$!
  never_within 1500 test -e "$ran"
  launch_etcd 2

  eventually has_ended "$waiter"
  assert_exits 0 "$waiter"
  [[ -e $ran ]]
}

@test "a client that is isolated with its member stops its command before the lock is granted again" {
  use_island
  use_etcd_around_island
  on_island env DLOCK_STORE="etcd://${hosts[1]}:13001" \
    "$DLOCK_BIN" run "${lease[@]}" --report "$report" job -- \
    sh -c 'echo $$ > "$1"; exec sleep 60' - "$BATS_TEST_TMPDIR/pid" 3>&- &
  holder=$!
  eventually test -s "$BATS_TEST_TMPDIR/pid"
  command=$(< "$BATS_TEST_TMPDIR/pid")
  "$faults/last_death" "$command" > "$BATS_TEST_TMPDIR/death" 3>&- &
  death=$!

  cut_off_island
  dlock run --wait 30s "${lease[@]}" job -- sh -c 'date +%s%3N > "$1"' - "$ran"
  wait "$death"

  (($(< "$BATS_TEST_TMPDIR/death") < $(< "$ran")))
  assert_exits 76 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason)"')" 'lost unconfirmed'
}

# --- A member that answers from an old state ---

# Puts a relay before the only member. After `turn_old`, it answers what only reads as before.
use_member_that_can_turn_old() {
  use_etcd_store
  old=$BATS_TEST_TMPDIR/old
  direct=$DLOCK_STORE
  "$faults/etcd_relay" old "$BATS_TEST_TMPDIR/relay" "${etcd_client_port[1]}" "$old" 3>&- &
  eventually test -s "$BATS_TEST_TMPDIR/relay"
  relayed=etcd://127.0.0.1:$(< "$BATS_TEST_TMPDIR/relay")
}
turn_old() { touch "$old"; }

@test "old answers to reads and keep-alives do not keep a command running after its lease" {
  use_member_that_can_turn_old
  DLOCK_STORE=$relayed hold job --ttl 9s --report "$report"
  # After this, the relay knows the answers to a renewal.
  eventually is_renewed_again

  turn_old
  revoke_at 1 "$(leases_by 1)"
  DLOCK_STORE=$direct run dlock run --wait 5s --ttl 6s job -- sh -c 'sleep 9; kill -0 "$1" && echo both' - "$command"

  refute_both
  assert_exits 76 "$holder"
  assert_equal "$(of_report .outcome)" lost
}

# A lease of 9 s is renewed when it has 6 s left.
is_renewed_again() {
  local left
  left=$(left_by 1)
  if ((left <= 6)); then was_low=1; fi
  [[ -n ${was_low:-} ]] && ((left >= 7))
}

refute_both() { [[ $output != *both* ]]; }

@test "an old answer does not make check say that a lock is still held" {
  use_member_that_can_turn_old
  export DLOCK_STORE=$relayed DLOCK_NAME=job
  dlock acquire --ttl 60s job
  DLOCK_FENCE=$(look job '.holders[0].fence')
  export DLOCK_FENCE
  dlock check
  turn_old
  revoke_at 1 "$(leases_by 1)"

  run dlock check

  assert_status 76
}

@test "a full database grants nothing, and held locks are renewed and released" {
  # shellcheck disable=SC2034  # use_etcd_store reads it
  etcd_options=(--quota-backend-bytes 262144)
  use_etcd_store
  hold job "${lease[@]}" --report "$report"
  fill_etcd

  run dlock run other -- touch "$ran"
  assert_message 69
  eventually was_renewed 1 4
  let_go

  assert_exits 0 "$holder"
  is_free job
}

fill_etcd() {
  local i
  for ((i = 0; i < 200; ++i)); do
    head -c 20000 /dev/zero | tr '\0' x | etcdctl put "fill/$i" > /dev/null 2>&1 || return 0
  done
  return 1
}

# --- Beside etcdctl, in one line ---

@test "dlock and etcdctl are served in the order of their arrival" {
  use_etcd_store
  hold job
  for number in 1 3 5; do
    queue job -- "${noting[@]}" "$order" "$number"
    etcdctl lock dlock/job -- "${noting[@]}" "$order" $((number + 1)) 3>&- &
    eventually stand_in_line $((number + 2))
  done

  let_go
  eventually grep -qsx 6 "$order"

  assert_equal "$(paste -sd ' ' "$order")" '1 2 3 4 5 6'
}

stand_in_line() { (($(etcdctl get --prefix --keys-only dlock/job/ | grep -c .) == $1)); }  # <number>

@test "dlock and etcdctl never hold the lock together" {
  use_etcd_store
  export faults BATS_TEST_TMPDIR
  contenders=()
  for number in 1 2 3 4; do
    (for ((i = 0; i < ${DLOCK_TEST_ROUNDS:-10}; ++i)); do
      dlock run --wait 60s contended -- "$faults/critical_section" "$BATS_TEST_TMPDIR" 0.003
    done) 3>&- &
    contenders+=($!)
    (for ((i = 0; i < ${DLOCK_TEST_ROUNDS:-10}; ++i)); do
      DLOCK_FENCE=0 etcdctl lock dlock/contended -- \
        "$faults/critical_section" "$BATS_TEST_TMPDIR" 0.003
    done) 3>&- &
    contenders+=($!)
  done

  wait "${contenders[@]}"

  [[ ! -e $BATS_TEST_TMPDIR/violations ]]
  fences=$(grep -vx 0 "$BATS_TEST_TMPDIR/fences")
  assert_equal "$(wc -l <<< "$fences")" $((4 * ${DLOCK_TEST_ROUNDS:-10}))
  sort -nc <<< "$fences"
}

@test "a learner, which has no vote yet, is passed over, and alone it is named as what it is" {
  use_etcd_store
  read -r client peer <<< "$(free_ports 2)"
  etcd_client_port[2]=$client etcd_peer_port[2]=$peer
  etcd_cluster+=,m2=http://127.0.0.1:$peer
  etcdctl member add m2 --learner --peer-urls="http://127.0.0.1:$peer" > /dev/null
  etcd_options=(--initial-cluster-state existing)
  launch_etcd 2
  eventually accepts_connections "$client"
  eventually is_caught_up

  run dlock --store "etcd://127.0.0.1:$client" run job -- echo started
  assert_message 69 'name members that vote in the URL'
  run dlock --store "etcd://127.0.0.1:$client,127.0.0.1:${etcd_client_port[1]}" run job -- echo started

  assert_equal "$status $output" '0 started'
}
is_caught_up() { dlock --store "etcd://127.0.0.1:$client" run job -- true 2>&1 | grep learner; }
