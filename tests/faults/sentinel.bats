#!/usr/bin/env bats
# Servers that fail over, with real sentinels that notice within a second. A lease lasts six
# seconds.
# shellcheck disable=SC2034,SC2086  # the helpers set holder, waiter, ports, and use the rest

setup() {
  load ../bats/support
  load redis
  load partition
  load sentinel
  load doctor
  load tree
  use_sentinel_store
}

lease=(--ttl 6s)
# Outlives a failover on a busy machine, with an election that is repeated twice.
long_lease=(--ttl 20s --kill-after 1s)

# Sets $report and $ran to files for this lock. What its run prints goes to $report.said.
use_files_of() {  # <lock>
  report=$BATS_TEST_TMPDIR/$1-report
  ran=$BATS_TEST_TMPDIR/$1-ran
}

# Holds a lock with a report, until `let_go ${pid_of[LOCK]}`.
declare -gA pid_of=()
hold_lock() {  # <lock> [<option>...]
  use_files_of "$1"
  hold "$@" --report "$report" 2> "$report.said"
  pid_of[$1]=$holder
}

# Asserts how the run of a lock ended, after it was told to end if that is to be 0.
assert_ended() {  # <lock> <exit code> <outcome, reason and protected>
  use_files_of "$1"
  (($2 != 0)) || let_go "${pid_of[$1]}"
  eventually has_ended "${pid_of[$1]}"
  assert_exits "$2" "${pid_of[$1]}"
  assert_equal "$1: $(of_report '"\(.outcome) \(.reason) \(.protected)"')" "$1: $3"
}

# Prints how long the lease of a lock lasts on the server that the sentinels name now.
left_on_primary() { member "$(primary_by 4)" PTTL "dlock:{$1}"; }

# Waits until the locks, of runs that have the $long_lease, are held on the new primary for longer
# than what the old one gave.
await_lives() {  # <lock>...
  local name first_lease_ends=$(($(now_ms) + 20000))
  eventually has_failed_over
  for name; do eventually was_renewed_there "$name"; done
  eventually is_past "$first_lease_ends"
}

# Asserts that these locks are held, and that their runs did not notice anything.
assert_lived() {  # <lock>...
  local name
  for name; do
    run dlock run "${long_lease[@]}" "$name" -- touch "$ran"
    assert_status 75
    assert_ended "$name" 0 'ran null true'
    run dlock run -w 20s "${long_lease[@]}" "$name" -- true
    assert_status 0
  done
}

was_renewed_there() { (($(left_on_primary "$1") > 13000)); }
is_past() { (($(now_ms) > $1)); }  # <time in ms>

assert_ran() { assert_equal "$status $output" '0 ran'; }

# --- A fleet that is well ---

@test "every verb works on the primary, and doctor says which ttl outlives a failover" {
  run dlock run job -- sh -c 'echo "$DLOCK_STORE"; dlock check && dlock status job > /dev/null && echo held'
  assert_equal "$status $output" "0 $DLOCK_STORE
held"
  run dlock status job
  assert_status 1

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
  assert_equal "$(json 'map(.name) | sort | join(" ")')" 'cache:report job'

  # With --replicas all the grant is on both replicas before the command starts.
  run dlock run --replicas all "${lease[@]}" job -- sh -c \
    'for port; do redis-cli -p "$port" EXISTS "dlock:{job}"; done' - "${ports[2]}" "${ports[3]}"
  assert_equal "$output" $'1\n1'

  run dlock doctor
  assert_output_contains "sentinels       3 of 3 name 127.0.0.1:${ports[1]}"
  assert_output_contains 'detected after 1.0s (down-after-milliseconds); a --ttl of '
  assert_output_contains '2 according to most sentinels; --replicas all waits for them'

  crash 4
  run dlock doctor --replicas all
  assert_output_contains ' 2; --replicas all waits for them'
  assert_output_contains "2 of 3 name 127.0.0.1:${ports[1]}; cannot reach 127.0.0.1:${ports[4]}"
}

# Asserts that a run on this store is refused with one line, which contains these texts.
assert_refused() {  # <exit code> <store> <text>...
  local text
  DLOCK_STORE=$2 run dlock run job -- touch "$ran"
  assert_message "$1"
  for text in "${@:3}"; do assert_output_contains "$text"; done
  # The arguments of a script contain a token.
  refute_output_contains 'args beginning with'
  [[ ! -e $ran ]]
}

@test "a URL that names the wrong servers is refused, and says which to write" {
  local servers=${DLOCK_STORE#*://} here=127.0.0.1:${ports[4]} verb store
  servers=${servers%/*}
  assert_refused 78 "redis+quorum://$servers" ' is a sentinel: a quorum needs independent servers'
  assert_refused 78 "redis+sentinel://$servers/other" "no primary is named 'other' (unknown to 3 of 3 sentinels)"
  assert_refused 78 "redis+sentinel://127.0.0.1:${ports[1]}/main" \
    "127.0.0.1:${ports[1]} is not a sentinel: for a single server, use redis://127.0.0.1:${ports[1]}"
  for store in "redis://$here" "redis+cluster://$here"; do
    assert_refused 78 "$store" 'for a sentinel, use redis+sentinel://'
  done
  DLOCK_STORE=redis://$here run dlock doctor
  assert_status 2
  assert_output_contains 'a sentinel, which has no locks'
  assert_output_contains "use redis+sentinel://$here/MASTER"

  for store in redis+sentinel://nowhere.invalid/main redis+cluster://nowhere.invalid; do
    assert_refused 69 "$store" 'cannot reach nowhere.invalid:'
  done
  # It does not matter while most of the others reply.
  DLOCK_STORE=redis+sentinel://nowhere.invalid,$here,127.0.0.1:${ports[5]}/main run dlock run job -- echo ran
  assert_ran
}

@test "a sentinel that is named twice is refused with 78" {
  # With a third one, the answers of two that differ can be enough before the last one arrives.
  DLOCK_STORE="redis+sentinel://127.0.0.1:${ports[4]},localhost:${ports[4]}/main"
  for verb in "run job -- touch $ran" 'status job' list; do
    run dlock $verb
    assert_status 78
    assert_output_contains "127.0.0.1:${ports[4]} and localhost:${ports[4]} are the same sentinel"
  done
  [[ ! -e $ran ]]
  run dlock doctor
  assert_status 2
  assert_output_contains 'are the same sentinel'
}

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
  assert_refused 69 "$DLOCK_STORE" "$announced" 'the address that the sentinels announce' --address-map
  run dlock doctor
  assert_output_contains 'the address that the sentinels announce'

  run dlock run --address-map "$announced=127.0.0.1:${ports[1]}" job -- echo ran
  assert_ran
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

@test "sentinels have their own login, and a missing login or permission is reported" {
  local i me=(env DLOCK_USER=me DLOCK_PASSWORD=mine)
  for i in 4 5 6; do member "$i" CONFIG SET sentinel-pass x; member "$i" ACL SETUSER default on '>secret'; done
  assert_refused 77 "$DLOCK_STORE" \
    'password required: use --sentinel-password-file or DLOCK_SENTINEL_PASSWORD'
  DLOCK_SENTINEL_PASSWORD=wrong assert_refused 77 "$DLOCK_STORE" ''
  export DLOCK_SENTINEL_PASSWORD=secret
  run dlock run job -- echo ran
  assert_ran

  # The connections of the sentinels and of the replicas stay.
  member 1 ACL SETUSER me on '>mine' '~*' '&*' +@all -role
  run "${me[@]}" "$(type -P dlock)" run job -- touch "$ran"
  assert_status 77
  assert_output_contains "'role'"
  member 1 CONFIG SET requirepass secret
  assert_refused 77 "$DLOCK_STORE" 'password required: use --password-file or DLOCK_PASSWORD'
}

# --- Replicas that are missing ---

# A busy machine does not reply for a second now and then.
allow_no_failover() {
  local i
  for i in 4 5 6; do member "$i" SENTINEL SET main down-after-milliseconds 600000; done
}

@test "a request for more replicas than exist ends with 69, and says so even if the sentinels fall silent" {
  # The first attempt, with a script that the server does not know, uses three quarters of the
  # time for WAIT, and the second three quarters of the rest.
  local more=(--replicas 3 --store-timeout 6s --ttl 60s) other
  allow_no_failover
  use_files_of other
  dlock run "${more[@]}" --on-outage run --report "$report" other -- sh -c 'exit 3' 2> "$said.other" 3>&- &
  other=$!
  dlock run "${more[@]}" job -- touch "$ran" 2> "$said" 3>&- &
  eventually is_granted
  freeze 5 6
  assert_exits 69 $!
  go_on 5 6

  assert_equal "$(< "$said")" \
    "dlock: job: 127.0.0.1:${ports[1]}: 2 of 3 replicas have acknowledged the lease (--replicas)"
  [[ ! -e $ran ]]
  run dlock status job
  assert_status 1
  # Without the lock, there was nothing to lose.
  assert_exits 3 "$other"
  grep -q '2 of 3 replicas have acknowledged the lease (--replicas); running without the lock' "$said.other"
  assert_equal "$(of_report '"\(.outcome) \(.reason) \(.protected)"')" 'ran null false'

  freeze 1 2 3
  run_doctor_for_one_time_limit
  assert_status 2
  assert_found ok sentinels "3 of 3 name 127.0.0.1:${ports[1]}"
  assert_found error reachable 'did not reply within'
}

@test "a replica that sentinels do not show must have the lease as well, and doctor counts it" {
  allow_no_failover
  member 2 CONFIG SET replica-announced no > "$said"
  for i in 4 5 6; do eventually shows_one_replica "$i"; done
  run dlock run --replicas all "${lease[@]}" job -- echo ran
  assert_ran
  run dlock doctor
  assert_found info replicas-up '1 according to most sentinels, but 2 connected to the primary'

  freeze 2
  run dlock run --replicas all --store-timeout 1s job -- touch "$ran"

  assert_status 69
  assert_output_contains '1 of 2 replicas have acknowledged the lease (--replicas)'
  [[ ! -e $ran ]]
}

shows_one_replica() { [[ $(member "$1" SENTINEL REPLICAS main | grep -c '^runid$') == 1 ]]; }  # <number>

is_granted() { [[ $(member 1 EXISTS 'dlock:{job}') == 1 ]]; }

@test "a primary without its replicas cannot keep a lease, and the loss says which are missing" {
  # The replies to WAIT have to be in time on a busy machine as well.
  hold_lock job --ttl 9s --store-timeout 3s --replicas 2
  crash 3

  assert_ended job 76 'lost unconfirmed false'
  [[ $(of_report .message) == 'lost the lock: its lease could not be renewed for '*': 1 of 2 replicas have acknowledged the lease (--replicas))'* ]]

  # One that the sentinels report as down does not count for all.
  for i in 4 5 6; do eventually sees_down "$i" 3; done
  hold_lock all "${lease[@]}" --replicas all
  freeze 4 5 6 # which would see the other one down, and count it out
  freeze 2

  assert_ended all 76 'lost unconfirmed false'
}

sees_down() { member "$1" SENTINEL REPLICAS main | grep -A 40 -x "127.0.0.1:${ports[$2]}" | grep -q s_down; }

# --- The primary goes ---

@test "a primary that is killed costs no run, no waiter and no watcher anything" {
  hold_lock all "${long_lease[@]}" --replicas all
  hold_lock none "${long_lease[@]}"
  eventually is_on_replicas none
  hold_lock handed "${long_lease[@]}" --replicas all
  queue handed --replicas all "${long_lease[@]}" -- touch "$ran"
  dlock watch job > "$said" 2> "$BATS_TEST_TMPDIR/errors" 3>&- &
  watcher=$!
  eventually watches_on 1
  # It ends if a server fails before it has read the locks.
  dlock run job -- true
  eventually tells_of_releases 1

  crash 1
  run dlock run -w 30s "${long_lease[@]}" new -- echo ran

  assert_status 0
  assert_output_contains ran
  await_lives all none
  assert_lived all none
  assert_ended handed 0 'ran null true'
  assert_exits 0 "$waiter"
  [[ -e $ran ]]
  # On a busy machine there can be a second failover.
  eventually is_told_of_another_run
  kill "$watcher"
}

is_on_replicas() { [[ $(member 2 EXISTS "dlock:{$1}")$(member 3 EXISTS "dlock:{$1}") == 11 ]]; }

tells_of_releases() { (($(grep -c released "$said") == $1)); }  # <number>

is_told_of_another_run() {
  dlock run "${long_lease[@]}" job -- true && (($(grep -c released "$said") > 1))
}
watches_on() { [[ $(member "$1" PUBSUB NUMSUB 'dlock:{job}:e' | tail -n 1) == 1 ]]; }

@test "a manual failover costs a run nothing, a break reaches it, and the old primary grants nothing" {
  hold_lock all "${long_lease[@]}" --replicas all
  hold_lock broken --ttl 30s --replicas all
  hold_lock handed --ttl 4s
  queue handed --ttl 30s --report "$report.next" -- dlock check

  member 4 SENTINEL FAILOVER main
  eventually has_failed_over
  # It does not know yet, and hands off the lock that the holder releases.
  assert_equal "$(member 1 ROLE | head -n 1)" master
  let_go
  assert_exits 0 "$holder"
  eventually has_ended "$waiter"
  assert_exits 0 "$waiter"
  assert_equal "$(jq -r '"\(.outcome) \(.protected)"' "$report.next")" 'ran true'

  eventually is_listening_there # with its next renewal, after 10 s
  run dlock break broken --yes
  assert_status 0
  assert_ended broken 76 'lost broken false'
  await_lives all
  assert_lived all
}

is_listening_there() { member "$(primary_by 4)" CLIENT LIST | grep -q 'cmd=blpop'; }

@test "a primary that is paused is replaced as soon as another one is named, and grants nothing afterwards" {
  # The first renewal is sent after 9 s or more. It would get no reply in its 12 s.
  hold_lock job --ttl 30s --store-timeout 12s --kill-after 200ms --replicas all
  eventually is_down_to 22500
  hold_lock all "${long_lease[@]}" --replicas all

  freeze 1

  eventually has_failed_over
  eventually is_up_to 21000
  renewed_at=$(($(lease_end_on "$(primary_by 4)") - 30000))
  # The sentinels are asked every 3 s. Otherwise the renewal that got no reply would end after 12 s.
  assert_between $((renewed_at - $(named_at))) -1000 9000
  # It does not know the scripts yet, and needs them before it waits for replicas.
  [[ $(member "$(primary_by 4)" INFO errorstats) != *NOSCRIPT* ]]
  go_on 1
  for _ in 1 2 3; do
    run dlock run "${lease[@]}" job -- touch "$ran"
    assert_status 75
  done
  assert_ended job 0 'ran null true'
  await_lives all
  assert_lived all
}

lease_end_on() { member "$1" PEXPIRETIME 'dlock:{job}'; }
# When the second sentinel named another server, according to the logs.
named_at() {
  grep -h -m 1 -E '[+](switch-master|failover-state-reconf-slaves)' "$fleet"/[456]/log |
    sed -E 's/^[0-9]+:X (.*) [#*] .*/\1/' | while read -r time; do date -d "$time" +%s%3N; done |
    sort -n | sed -n 2p
}

is_down_to() { (($(member 1 PTTL 'dlock:{job}') < $1)); }
is_up_to() { (($(left_on_primary job) > $1)); }

@test "a lease that no replica had is set up again on the new primary, unless another run was granted the lock" {
  # Not even data in transit reaches them.
  freeze 2 3
  member 1 CLIENT KILL TYPE replica
  hold_lock again "${long_lease[@]}"
  use_files_of job
  dlock run --ttl 60s --report "$report" job -- sh -c ': > "$1"; exec sleep 60' - "$began" 2> "$said" 3>&- &
  pid_of[job]=$!
  # The server has the lease earlier, but the sentinels have to confirm the server.
  eventually test -e "$began"
  kill -STOP "${pid_of[job]}"
  crash 1
  go_on 2 3
  eventually has_failed_over

  run dlock run -w 15s "${lease[@]}" job -- true
  assert_status 0
  kill -CONT "${pid_of[job]}"

  assert_ended job 76 'lost failed over false'
  grep -q 'lost the lock: a server that took over did not know it' "$said"
  await_lives again
  assert_lived again
  grep -q 'the lease was missing from the store and was restored' "$BATS_TEST_TMPDIR/again-report.said"
}

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

@test "a primary that is isolated with its client keeps no lease, and the other side gets the lock" {
  stop_fleet
  use_two_sides
  side_of=('' west east east west east east)
  start_fleet
  dlock() { on_side west "$(type -P dlock)" "$@"; }
  hold_tree "${lease[@]}" --replicas all
  eventually is_on_replicas job

  cut_the_link
  end=$(member 2 PEXPIRETIME 'dlock:{job}')
  dlock() { on_side east "$(type -P dlock)" "$@"; }
  dlock run -w 30s "${lease[@]}" --replicas all job -- bash -c 'clock_into "$1"' - "$ran" 3>&- &
  waiter=$!

  await_death
  ((spare > 0))
  assert_exits 76 "$holder"
  assert_exits 0 "$waiter"
  (($(< "$ran") / 1000 >= end - spare))
  assert_equal "$(of_report '"\(.outcome) \(.reason)"')" 'lost unconfirmed'
}

# --- Sentinels ---

@test "without most of the sentinels a request ends with 69 in time, and a run goes on" {
  crash 4
  run dlock run job -- echo ran
  assert_ran
  start_liar
  run dlock run job -- echo ran
  assert_ran
  crash 4
  cp "$fleet/4/honest" "$fleet/4/conf"
  # A silent one costs nothing with --replicas all, either.
  start_member 4
  freeze 6
  run dlock run --replicas all job -- echo ran
  assert_ran
  go_on 6

  hold_lock job "${lease[@]}"
  freeze 4 5
  run dlock run --store-timeout 500ms other -- touch "$ran"
  assert_status 69
  assert_output_contains "127.0.0.1:${ports[4]} does not reply"
  crash 4 5
  assert_refused 69 "$DLOCK_STORE" \
    "no majority of 3 sentinels agrees on a primary for 'main': cannot reach 127.0.0.1:${ports[4]}"
  await_renewals
  crash 6
  assert_refused 69 "$DLOCK_STORE" 'no majority of 3 sentinels'
  assert_ended job 0 'ran null true'
}

# Replaces the first sentinel by one that takes a replica for the primary.
start_liar() {
  cp "$fleet/4/conf" "$fleet/4/honest"
  printf '%s\n' "port ${ports[4]}" 'bind 127.0.0.1' "dir $fleet/4" > "$fleet/4/conf"
  sentinel_settings 2 | grep -v -e parallel >> "$fleet/4/conf"
  sed -i 's/down-after-milliseconds main .*/down-after-milliseconds main 600000/' "$fleet/4/conf"
  start_member 4
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
