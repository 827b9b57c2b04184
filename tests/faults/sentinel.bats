#!/usr/bin/env bats
# Servers that fail over, with real sentinels that notice within a second. A lease lasts six
# seconds.
# shellcheck disable=SC2016  # commands are shells that expand for themselves
# shellcheck disable=SC2034,SC2154  # the helpers set holder, waiter, ports, and use the rest

setup() {
  load ../bats/support
  load locks
  load redis
  load partition
  load sentinel
  load doctor
  load tree
  report=$BATS_TEST_TMPDIR/report
  said=$BATS_TEST_TMPDIR/said
  ran=$BATS_TEST_TMPDIR/ran
  began=$BATS_TEST_TMPDIR/began
  use_sentinel_store
}

teardown() {
  stop_fleet
  kill_leftovers
}

lease=(--ttl 6s)
# Outlives a failover on a busy machine, with an election that is repeated twice.
long_lease=(--ttl 20s --kill-after 1s)

of_report() { jq -r "$1" "$report"; }

# Prints how long the lease lasts on the server that the sentinels name now.
left_on_primary() { member "$(primary_by 4)" PTTL 'dlock:{job}'; }

# Asserts that the lock is held on the new primary, that the run, which has the $long_lease, does
# not end with what the old one gave, and that it did not notice anything.
assert_lived_through() {
  local first_lease_ends=$(($(now_ms) + 20000))
  eventually has_failed_over
  eventually was_renewed_there
  eventually is_past "$first_lease_ends"
  run dlock run "${long_lease[@]}" job -- touch "$ran"
  assert_status 75
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason) \(.protected)"')" 'ran null true'
  run dlock run -w 20s "${long_lease[@]}" job -- touch "$ran"
  assert_status 0
}

was_renewed_there() { (($(left_on_primary) > 13000)); }
is_past() { (($(now_ms) > $1)); }  # <time in ms>

# --- A fleet that is well ---

@test "a command runs, and the lock is free afterwards" {
  run dlock run job -- sh -c 'echo "$DLOCK_STORE"; dlock check && dlock status job > /dev/null && echo held'

  assert_status 0
  assert_equal "$output" "$DLOCK_STORE
held"
  run dlock status job
  assert_status 1
}

@test "verbs by hand, limits and cached outputs work on the primary" {
  token=$(dlock acquire job)
  dlock renew job --token "$token"
  dlock release job --token "$token"
  dlock limit api 5/1h
  dlock fence disk 7
  run dlock cache report -- echo stored
  assert_equal "$status $output" '0 stored'
  run dlock cache report -- false
  assert_equal "$status $output" '0 stored'
  run dlock list --json
  assert_equal "$(json '.[].name' | sort | paste -sd ' ')" 'cache:report'
}

@test "with --replicas all the grant is on both replicas before the command starts" {
  dlock run --replicas all "${lease[@]}" job -- sh -c \
    'for port; do redis-cli -p "$port" EXISTS "dlock:{job}"; done' - "${ports[2]}" "${ports[3]}" > "$said"

  assert_equal "$(paste -sd ' ' "$said")" '1 1'
}

@test "sentinels are refused as servers of a quorum" {
  local servers=${DLOCK_STORE#*://}

  run dlock run --store "redis+quorum://${servers%/*}" job -- touch "$ran"

  assert_status 78
  assert_output_contains ' is a sentinel: a quorum needs independent servers'
  [[ ! -e $ran ]]
}

# A busy machine does not reply for a second now and then.
allow_no_failover() {
  local i
  for i in 4 5 6; do member "$i" SENTINEL SET main down-after-milliseconds 600000; done
}

@test "a request for more replicas than exist ends with 69" {
  allow_no_failover
  # The first attempt, with a script that the server does not know, uses three quarters of the
  # time for WAIT, and the second three quarters of the rest.
  run dlock run --replicas 3 --store-timeout 6s --ttl 60s job -- touch "$ran"

  assert_status 69
  assert_output_contains '2 of 3 replicas have acknowledged the lease (--replicas)'
  [[ ! -e $ran ]]
  run dlock status job
  assert_status 1
}

@test "a run without the lock, because replicas are missing, is not lost" {
  allow_no_failover
  run dlock run --replicas 3 --store-timeout 6s --ttl 60s --on-outage run --report "$report" job -- \
    sh -c 'exit 3'

  assert_status 3
  assert_output_contains '2 of 3 replicas have acknowledged the lease (--replicas); running without the lock'
  assert_equal "$(of_report '"\(.outcome) \(.reason) \(.protected)"')" 'ran null false'
}

@test "missing replicas are reported even if the sentinels no longer reply" {
  allow_no_failover
  dlock run --replicas 3 --store-timeout 6s --ttl 60s job -- touch "$ran" 2> "$said" 3>&- &
  eventually is_granted
  freeze 5 6
  assert_exits 69 $!
  go_on 5 6

  assert_equal "$(cat "$said")" \
    "dlock: job: 127.0.0.1:${ports[1]}: 2 of 3 replicas have acknowledged the lease (--replicas)"
  [[ ! -e $ran ]]
}

is_granted() { [[ $(member 1 EXISTS 'dlock:{job}') == 1 ]]; }

# --- The primary goes ---

@test "a primary that is killed costs the run nothing with --replicas all" {
  hold job "${long_lease[@]}" --replicas all --report "$report"

  crash 1

  assert_lived_through
}

@test "a primary that is killed costs the run nothing with --replicas 0 if the replicas had the lease" {
  hold job "${long_lease[@]}" --report "$report"
  eventually is_on_replicas

  crash 1

  assert_lived_through
}

is_on_replicas() { [[ $(member 2 EXISTS 'dlock:{job}')$(member 3 EXISTS 'dlock:{job}') == 11 ]]; }

@test "a manual failover costs the run nothing" {
  hold job "${long_lease[@]}" --replicas all --report "$report"

  member 4 SENTINEL FAILOVER main

  assert_lived_through
}

@test "a primary that is paused and continued costs the run nothing, and grants nothing" {
  hold job "${long_lease[@]}" --replicas all --report "$report"

  freeze 1
  eventually has_failed_over
  go_on 1

  for _ in 1 2 3 4 5; do
    run dlock run "${lease[@]}" job -- touch "$ran"
    assert_status 75
  done
  assert_lived_through
}

@test "a new primary is used as soon as it is named, while the old one has not replied yet" {
  # The first renewal is sent after 9 s or more. It would get no reply in its 12 s.
  hold job --ttl 30s --store-timeout 12s --kill-after 200ms --replicas all --report "$report"
  eventually is_down_to 22500

  freeze 1

  eventually has_failed_over
  eventually is_up_to 21000
  renewed_at=$(($(lease_end_on "$(primary_by 4)") - 30000))
  # The sentinels are asked every 3 s.
  assert_between $((renewed_at - $(named_at))) -1000 4500
  # It does not know the scripts yet, and needs them before it waits for replicas.
  [[ $(member "$(primary_by 4)" INFO errorstats) != *NOSCRIPT* ]]
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason) \(.protected)"')" 'ran null true'
}

lease_end_on() { member "$1" PEXPIRETIME 'dlock:{job}'; }
# When the second sentinel named another server, according to the logs.
named_at() {
  grep -h -m 1 -E '[+](switch-master|failover-state-reconf-slaves)' "$fleet"/[456]/log |
    sed -E 's/^[0-9]+:X (.*) [#*] .*/\1/' | while read -r time; do date -d "$time" +%s%3N; done |
    sort -n | sed -n 2p
}

is_down_to() { (($(member 1 PTTL 'dlock:{job}') < $1)); }
is_up_to() { (($(left_on_primary) > $1)); }

@test "a lease that no replica had is set up again on the new primary" {
  cut_off_replicas
  hold job "${long_lease[@]}" --report "$report" 2> "$said"
  crash 1
  go_on 2 3

  assert_lived_through
  grep -q 'the lease was missing from the store and was restored' "$said"
}

# Not even data in transit reaches them.
cut_off_replicas() {
  freeze 2 3
  member 1 CLIENT KILL TYPE replica
}

@test "a lease is lost if another run is granted the lock before it is set up again" {
  cut_off_replicas
  dlock run --ttl 20s --report "$report" job -- sh -c ': > "$1"; exec sleep 60' - "$began" 2> "$said" 3>&- &
  holder=$!
  # The server has the lease earlier, but the sentinels have to confirm the server.
  eventually test -e "$began"
  kill -STOP "$holder"
  crash 1
  go_on 2 3
  eventually has_failed_over

  run dlock run -w 5s "${lease[@]}" job -- true
  kill -CONT "$holder"

  assert_status 0
  eventually has_ended "$holder"
  assert_exits 76 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason)"')" 'lost failed over'
  grep -q 'lost the lock: a server that took over did not know it' "$said"
}

@test "a waiter gets the lock from the new primary" {
  hold job "${lease[@]}" --replicas all --report "$report"
  queue job --replicas all "${lease[@]}" -- touch "$ran"
  crash 1
  eventually has_failed_over

  let_go

  assert_exits 0 "$holder"
  assert_exits 0 "$waiter"
  [[ -e $ran ]]
}

@test "with -w a new primary is waited for" {
  crash 1

  run dlock run -w 30s job -- echo ran

  assert_status 0
  assert_output_contains ran
}

@test "a holder is notified of a break on the new primary at once" {
  hold job --ttl 30s --replicas all --report "$report"
  member 4 SENTINEL FAILOVER main
  eventually has_failed_over
  eventually is_listening_there # with its next renewal, after 10 s

  run dlock break job --yes

  assert_status 0
  assert_exits 76 "$holder"
  assert_equal "$(of_report .reason)" broken
}

is_listening_there() { member "$(primary_by 4)" CLIENT LIST | grep -q 'cmd=blpop'; }

@test "a waiter gets the lock after a lost reply and a grant that lacked replicas" {
  freeze 1 2 3
  dlock run -w 60s "${lease[@]}" --replicas all -v job -- touch "$ran" 2> "$said" 3>&- &
  waiter=$!
  eventually grep -q 'did not reply' "$said"
  go_on 1
  eventually has_been_given_back

  go_on 2 3

  assert_exits 0 "$waiter"
  [[ -e $ran ]]
}

# Both scripts are new to the server: the one that asks and the one that releases.
has_been_given_back() { member 1 INFO commandstats | grep -q 'cmdstat_eval:calls=[2-9]'; }

# --- A primary that is cut off ---

@test "a primary that is isolated with its client keeps no lease, and the other side gets the lock" {
  stop_fleet
  use_two_sides
  side_of=('' west east east west east east)
  start_fleet
  dlock() { on_side west "$(type -P dlock)" "$@"; }
  hold_tree "${lease[@]}" --replicas all
  eventually is_on_replicas

  cut_the_link
  cut_at=$(now_ms)
  end=$(member 2 PEXPIRETIME 'dlock:{job}')
  dlock() { on_side east "$(type -P dlock)" "$@"; }
  dlock run -w 30s "${lease[@]}" --replicas all job -- bash -c 'clock_into "$1"' - "$ran" 3>&- &
  waiter=$!

  await_death
  assert_between "$spare" 0 6000
  assert_exits 76 "$holder"
  assert_exits 0 "$waiter"
  assert_between $(($(< "$ran") / 1000)) "$((end - spare))" "$((cut_at + 12000))"
  assert_equal "$(of_report '"\(.outcome) \(.reason)"')" 'lost unconfirmed'
}

@test "with --replicas all a primary without its replicas cannot keep a lease" {
  hold job "${lease[@]}" --replicas all --report "$report"
  freeze 4 5 6 # which would see them down, and count them out

  freeze 2 3

  eventually has_ended "$holder"
  assert_exits 76 "$holder"
  assert_equal "$(of_report .reason)" unconfirmed
}

@test "a loss says that replicas are missing" {
  # The replies to WAIT have to be in time on a busy machine as well.
  hold job --ttl 9s --store-timeout 3s --replicas 2 --report "$report"

  crash 3

  eventually has_ended "$holder"
  assert_exits 76 "$holder"
  [[ $(of_report .message) == 'lost the lock: its lease could not be renewed for '*': 1 of 2 replicas have acknowledged the lease (--replicas))'* ]]
}

@test "replicas that the sentinels report as down do not count for --replicas all" {
  crash 3
  for i in 4 5 6; do eventually sees_down "$i" 3; done

  run dlock run --replicas all job -- echo ran

  assert_status 0
}

sees_down() { member "$1" SENTINEL REPLICAS main | grep -A 40 -x "127.0.0.1:${ports[$2]}" | grep -q s_down; }

@test "a primary that most sentinels no longer name grants nothing" {
  # The URL names one sentinel, which does not know of the failover.
  freeze 6
  member 4 SENTINEL FAILOVER main
  eventually has_failed_over
  freeze 4 5
  go_on 6

  run dlock run --store-timeout 700ms job -- touch "$ran"

  assert_status 69
  [[ ! -e $ran ]]
}

@test "a waiter is granted nothing by a server that is no longer the primary" {
  hold job --ttl 4s
  queue job --ttl 30s --report "$report" -- dlock check
  member 4 SENTINEL FAILOVER main
  eventually has_failed_over
  # It does not know yet, and hands off the lock that the holder releases.
  assert_equal "$(member 1 ROLE | head -n 1)" master

  let_go

  assert_exits 0 "$holder"
  eventually has_ended "$waiter"
  assert_exits 0 "$waiter"
  assert_equal "$(of_report '"\(.outcome) \(.protected)"')" 'ran true'
}

# --- Sentinels ---

@test "one sentinel that is dead or wrong changes nothing" {
  crash 4
  run dlock run job -- echo ran
  assert_equal "$status $output" '0 ran'

  start_liar
  run dlock run job -- echo ran
  assert_equal "$status $output" '0 ran'
}

# Replaces the first sentinel by one that takes a replica for the primary.
start_liar() {
  printf '%s\n' "port ${ports[4]}" 'bind 127.0.0.1' "dir $fleet/4" > "$fleet/4/conf"
  sentinel_settings 2 | grep -v -e parallel >> "$fleet/4/conf"
  sed -i 's/down-after-milliseconds main .*/down-after-milliseconds main 600000/' "$fleet/4/conf"
  start_member 4
}

@test "two dead sentinels end a request with 69 in time, and do not disturb a running command" {
  hold job "${lease[@]}" --report "$report"
  crash 4 5

  run dlock run job -- touch "$ran"

  assert_status 69
  assert_output_contains "no majority of 3 sentinels agrees on a primary for 'main': cannot reach 127.0.0.1:${ports[4]}"
  await_renewals
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(of_report .protected)" true
}

await_renewals() {
  local _
  for _ in 1 2; do
    before=$(member 1 PTTL 'dlock:{job}')
    eventually is_longer_than_before
  done
}

is_longer_than_before() {
  local now
  now=$(member 1 PTTL 'dlock:{job}')
  ((now > before)) && return
  before=$now
  return 1
}

@test "a silent sentinel costs nothing with --replicas all, either" {
  freeze 6

  run dlock run --replicas all job -- echo ran

  assert_equal "$status $output" '0 ran'
}

@test "without any sentinel a request ends with 69" {
  crash 4 5 6

  run dlock run job -- touch "$ran"

  assert_status 69
}

@test "stopped sentinels end a request with 69 in time" {
  freeze 4 5

  run dlock run --store-timeout 500ms job -- touch "$ran"

  assert_status 69
  assert_output_contains "127.0.0.1:${ports[4]} does not reply"
}

@test "a name that no sentinel knows is 78" {
  DLOCK_STORE=${DLOCK_STORE%/main}/other

  run dlock run job -- touch "$ran"

  assert_status 78
  assert_output_contains "no primary is named 'other' (unknown to 3 of 3 sentinels)"
}

@test "a sentinel that is named twice is refused with 78" {
  # With a third one, the answers of two that differ can be enough before the last one arrives.
  DLOCK_STORE="redis+sentinel://127.0.0.1:${ports[4]},localhost:${ports[4]}/main"
  for verb in "run job -- touch $ran" 'status job' list; do
    # shellcheck disable=SC2086
    run dlock $verb
    assert_status 78
    assert_output_contains "127.0.0.1:${ports[4]} and localhost:${ports[4]} are the same sentinel"
  done
  [[ ! -e $ran ]]
  run dlock doctor
  assert_status 2
  assert_output_contains 'are the same sentinel'
}

# --- Addresses that clients cannot reach ---

# An address that refuses connections.
announce_elsewhere() {
  local i
  for i in 4 5 6; do
    member "$i" SENTINEL RESET main
    member "$i" SENTINEL REMOVE main
    member "$i" SENTINEL MONITOR main "${announced%:*}" "${announced##*:}" 2
  done
}

@test "who names an address that cannot be reached is said, and --address-map has another one" {
  announced=127.0.0.99:${ports[1]}
  announce_elsewhere
  run dlock run job -- touch "$ran"
  assert_status 69
  assert_output_contains "$announced"
  assert_output_contains 'the address that the sentinels announce'
  assert_output_contains --address-map
  run dlock doctor
  assert_output_contains 'the address that the sentinels announce'

  run dlock run --address-map "$announced=127.0.0.1:${ports[1]}" job -- echo ran
  assert_equal "$status $output" '0 ran'
  # The first entry for a host without its port keeps the port.
  export DLOCK_ADDRESS_MAP=10.1.2.3=10.1.2.4,127.0.0.99=localhost
  run dlock run job -- sh -c 'dlock check && dlock list --json > /dev/null && echo "$DLOCK_ADDRESS_MAP"'
  assert_equal "$status $output" "0 $DLOCK_ADDRESS_MAP"
  unset DLOCK_ADDRESS_MAP
  # The command of a run has the map of the run.
  run dlock run --address-map 10.1.2.3=10.1.2.4 --address-map 127.0.0.99=127.0.0.1 job -- dlock check
  assert_equal "$status $output" '0 '
  printf '%s\n' '[address-map]' "\"$announced\" = \"127.0.0.1:${ports[1]}\"" > "$BATS_TEST_TMPDIR/config"
  run dlock --config "$BATS_TEST_TMPDIR/config" limit api 5/1s
  assert_status 0
  run dlock --config "$BATS_TEST_TMPDIR/config" doctor
  assert_output_contains reachable
}

@test "a server that is not a sentinel is recognised" {
  DLOCK_STORE=redis+sentinel://127.0.0.1:${ports[1]}/main

  run dlock run job -- touch "$ran"

  assert_status 78
  assert_one_line
  assert_output_contains "127.0.0.1:${ports[1]} is not a sentinel: for a single server, use redis://127.0.0.1:${ports[1]}"
}

@test "the URL of a sentinel where a server is expected is reported" {
  for DLOCK_STORE in redis://127.0.0.1:${ports[4]} redis+cluster://127.0.0.1:${ports[4]}; do
    run dlock run job -- touch "$ran"

    assert_status 78
    assert_one_line
    assert_output_contains 'for a sentinel, use redis+sentinel://'
    # The arguments of a script contain a token.
    refute_output_contains 'args beginning with'
  done
  DLOCK_STORE=redis://127.0.0.1:${ports[4]} run dlock doctor
  assert_status 2
  assert_output_contains 'a sentinel, which has no locks'
  assert_output_contains "use redis+sentinel://127.0.0.1:${ports[4]}/MASTER"
  [[ ! -e $ran ]]
}

@test "a name that cannot be resolved ends a request with 69, and the message contains it" {
  for DLOCK_STORE in redis+sentinel://nowhere.invalid/main redis+cluster://nowhere.invalid; do
    run dlock run job -- touch "$ran"

    assert_status 69
    assert_one_line
    assert_output_contains 'cannot reach nowhere.invalid:'
  done
  # It does not matter while most of the others reply.
  DLOCK_STORE=redis+sentinel://nowhere.invalid,127.0.0.1:${ports[4]},127.0.0.1:${ports[5]}/main \
    run dlock run job -- echo ran
  assert_equal "$status $output" '0 ran'
}

@test "sentinels have their own login" {
  for i in 4 5 6; do member "$i" CONFIG SET sentinel-pass x; member "$i" ACL SETUSER default on '>secret'; done
  run dlock run job -- echo ran
  assert_status 77
  assert_output_contains 'password required: use --sentinel-password-file or DLOCK_SENTINEL_PASSWORD'
  DLOCK_SENTINEL_PASSWORD=wrong run dlock run job -- echo ran
  assert_status 77

  DLOCK_SENTINEL_PASSWORD=secret run dlock run job -- echo ran

  assert_equal "$status $output" '0 ran'
}

@test "a missing password or permission is reported" {
  for i in 1 2 3; do member "$i" CONFIG SET masterauth secret; done
  for i in 1 2 3; do member "$i" CONFIG SET requirepass secret; done
  run dlock run job -- touch "$ran"
  assert_status 77
  assert_output_contains "password required: use --password-file or DLOCK_PASSWORD"

  DLOCK_PASSWORD=secret run dlock run --ttl 30s --store-timeout 3s job -- redis-cli -p "${ports[1]}" \
    -a secret --no-auth-warning ACL SETUSER me on '>mine' '~*' '&*' +@all -role
  assert_status 0
  DLOCK_USER=me DLOCK_PASSWORD=mine run dlock run job -- touch "$ran"
  assert_status 77
  assert_output_contains "'role'"
  [[ ! -e $ran ]]
}

@test "doctor reports whether the sentinels agree, and which ttl outlives a failover" {
  run dlock doctor
  assert_output_contains "sentinels       3 of 3 name 127.0.0.1:${ports[1]}"
  assert_output_contains 'detected after 1.0s (down-after-milliseconds); a --ttl of '
  assert_output_contains '2 according to most sentinels; --replicas all waits for them'

  crash 4
  run dlock doctor
  assert_output_contains "2 of 3 name 127.0.0.1:${ports[1]}; cannot reach 127.0.0.1:${ports[4]}"
}

@test "doctor waits for a silent primary and silent replicas together" {
  local i
  # None is replaced meanwhile.
  for i in 4 5 6; do member "$i" SENTINEL SET main down-after-milliseconds 60000; done
  freeze 1 2 3

  run_doctor_for_one_time_limit

  assert_status 2
  assert_found ok sentinels "3 of 3 name 127.0.0.1:${ports[1]}"
  assert_found error reachable 'did not reply within'
}

# --- Watching ---

@test "watch continues at the new primary" {
  dlock watch job > "$said" 2> "$BATS_TEST_TMPDIR/errors" 3>&- &
  watcher=$!
  eventually watches_on 1
  # It ends if a server fails before it has read the locks.
  dlock run job -- true
  eventually tells_of_releases 1
  crash 1
  eventually has_failed_over
  # On a busy machine there can be a second failover.
  eventually watches_on_primary

  dlock run job -- true

  eventually tells_of_releases 2
  kill "$watcher"
}

tells_of_releases() { (($(grep -c released "$said") == $1)); }  # <number>

watches_on_primary() { watches_on "$(primary_by 4)"; }
watches_on() { [[ $(member "$1" PUBSUB NUMSUB 'dlock:{job}:e' | tail -n 1) == 1 ]]; }
