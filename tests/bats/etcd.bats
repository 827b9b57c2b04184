#!/usr/bin/env bats
# Locks on an etcd cluster: what is specific to etcd. What every store does is in tests/contract.

setup_file() {
  load support
  load etcd
  share_etcd
}

teardown_file() {
  load support
  load etcd
  end_shared_etcd
}

setup() {
  load support
  load etcd
  use_shared_etcd
}

noted() { grep -qsx "$1" "$order"; }
keys() { etcdctl get --prefix --keys-only "$1" | sed '/^$/d'; }  # <prefix>

@test "the fence is the revision that created the holder's key, and it grows" {
  first=$(dlock run job -- sh -c 'etcdctl get --prefix dlock/job/ -w json | jq .kvs[0].create_revision; echo "$DLOCK_FENCE"' | paste -sd ' ')
  second=$(dlock run job -- printenv DLOCK_FENCE)

  assert_equal "${first% *}" "${first#* }"
  ((second > ${first#* }))
}

@test "those whom a nested reader has passed in the queue get greater fences than it had" {
  note=(sh -c 'echo "$DLOCK_FENCE" >> "$0"' "$order")
  hold job --shared
  queue job -- "${note[@]}"
  first=$waiter
  queue job -- "${note[@]}"
  DLOCK_HELD=job=$(look job '.holders[0].fence') dlock run --shared job -- "${note[@]}"

  let_go

  assert_exits 0 "$first"
  assert_exits 0 "$waiter"
  assert_equal "$(wc -l < "$order")" 3
  sort -cnu "$order"
}

@test "watch reports each broken lock, even if no run has to end" {
  hold_by_etcdctl foreign
  dlock acquire --ttl 60s 'by hand' > /dev/null
  dlock run --min-hold 1h 'held on' -- true
  dlock watch --json > "$said" 3>&- &
  eventually is_watched

  for name in foreign 'by hand' 'held on'; do dlock break --yes "$name" > /dev/null; done

  eventually has_been_told 3
  assert_equal "$(jq -r '"\(.event) \(.name) \(.free)"' "$said")" 'broken foreign 1
broken by hand 1
broken held on 1'
  assert_equal "$(jq -r .message "$said" | sort -u)" "$(id -un)@$(uname -n) took the lock with dlock break"
}

has_been_told() { (($(wc -l < "$said") >= $1)); }  # <number of events>
# Whether a watcher is connected.
is_watched() { (($(etcd_watchers) > 0)); }

@test "a register of fences that another program has written is refused" {
  dlock fence disk 3
  etcdctl put dlock/.fence/disk xx > /dev/null

  run dlock fence disk 4

  assert_message 78 'dlock/.fence/disk'
}

@test "a past run that another program has written as running does not count for --dedupe" {
  token=$(dlock acquire job)
  queue job --dedupe 1h -- "${noting[@]}" "$order" started
  now=$(date +%s)000000
  etcdctl put dlock/.runs/job/past/7 "$(jq -nc --argjson now "$now" '{fence: 7, started: $now, host: "a", user: "b",
    counts: true, ended: $now, duration_ms: 1, exit_code: 0, outcome: "running"}')" > /dev/null

  dlock release --token "$token" job

  assert_exits 0 "$waiter"
  noted started
}

@test "a damaged record of a run is named, and hides no other run" {
  dlock run job -- true
  etcdctl put dlock/.runs/job/past/7 '{' > /dev/null
  # shellcheck disable=SC2086  # words
  for words in 'list --prometheus' history 'history job'; do
    run dlock $words
    assert_status 69
    assert_output_contains 'dlock: warning: job: the record dlock/.runs/job/past/7 of a run is damaged: delete it'
    [[ $output == *'exit 0'* || $output == *'dlock_incomplete{namespace="dlock"} 1'* ]]
  done
}

@test "break of one holder leaves the others alone, whatever another program has written there" {
  hold job --slots 2 --report "$report"
  fence=$(look job '.holders[].fence')
  dlock acquire --slots 2 --ttl 60s job > /dev/null
  key=$(etcdctl get --prefix dlock/job/ -w json | jq -r '.kvs[] | select(.value | @base64d | contains("detached")).key | @base64d')
  etcdctl put --ignore-lease "$key" "$(etcdctl get --print-value-only "$key" | sed 's/"holds"/"broken"/')" > /dev/null

  dlock break --yes --fence "$fence" job > /dev/null

  assert_exits 76 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason)"')" 'lost broken'
  assert_equal "$(look job '.holders | length')" 1
}

@test "a holder and a waiter have one key each, and a run leaves no key behind" {
  hold job
  queue job -- true
  assert_equal "$(keys dlock/job/ | wc -l)" 2

  let_go
  assert_exits 0 "$waiter"

  assert_equal "$(keys dlock/job/)" ''
  assert_equal "$(keys dlock/.runs/job/now/)" ''
}

@test "a member that does not reply costs a waiter one store timeout, not two" {
  freeze_etcd 1
  begin=$(now_ms)

  run dlock run --wait 100ms --store-timeout 2s job -- true

  assert_status 69
  # in time: two store timeouts are four seconds
  assert_between $(($(now_ms) - begin)) 2000 3900
}

@test "a refused run leaves neither a key nor a lease behind" {
  hold job
  run dlock run job -- true  # creates the lease of the run records
  before=$(etcdctl lease list | sed 1d)

  run dlock run job -- true

  assert_status 75
  # Those of earlier tests may have expired meanwhile.
  assert_equal "$(etcdctl lease list | sed 1d | grep -vxF "$before")" ''
  assert_equal "$(keys dlock/job/ | wc -l)" 1
  assert_equal "$(etcdctl get dlock/.runs/job/refused -w json | jq '.kvs[0].version')" 2
}

@test "a waiter whose key another program overwrites ends, also beside a key with an empty name" {
  hold job
  queue job -- true
  key=$(keys dlock/job/ | grep -vxF "$(keys_of_holder)")

  etcdctl put dlock/job/ z > /dev/null
  etcdctl put "$key" z > /dev/null
  etcdctl del "$(keys_of_holder)" > /dev/null

  assert_exits 75 "$waiter"
}

# Prints the key of the holder, which dlock has written.
keys_of_holder() { etcdctl get --prefix dlock/job/ -w json | jq -r '.kvs[] | select(.value | @base64d | contains("\"holds\"")).key | @base64d'; }

@test "a lock that etcdctl holds is busy, and its holder has no fence or pid" {
  hold_by_etcdctl job

  run dlock run job -- true
  assert_status 75
  assert_equal "$output" 'dlock: job: held by another program'
  assert_equal "$(look job '.holders[0] | "\(.fence) \(.pid)"')" 'null null'
  kill "$foreign"
  eventually is_free job
}

# Holds a lock as etcdctl does. Sets $foreign to its pid.
hold_by_etcdctl() {  # <name>
  etcdctl lock "dlock/$1" > /dev/null 3>&- &
  foreign=$!
  eventually is_held "$1"
}

@test "a lease with a TTL below etcd's minimum lasts at least its TTL and expires within seconds" {
  # Members have more time to reply than a tenth of the TTL. A busy machine may still be too slow.
  acquire_briefly() {
    begin=$(now_ms)
    dlock acquire --ttl 500ms --store-timeout 400ms job
  }
  while_it_fails_with 69 acquire_briefly

  left=$(look job '.holders[0].expires_in_ms // "over"')
  [[ $left == over ]] || assert_between "$left" 0 2000
  eventually is_free job
  (($(now_ms) - begin >= 500))
}

# --- Proxies ---

# Puts etcd's own proxy before the member. It passes on errors without their codes, and cancels a
# keep-alive that its client has closed for writing.
use_grpc_proxy() {
  begin_to_use_ports
  local port
  port=$(free_ports 1)
  etcd grpc-proxy start --endpoints="${DLOCK_STORE#etcd://}" --listen-addr="127.0.0.1:$port" \
    > "$BATS_TEST_TMPDIR/proxy.log" 2>&1 3>&- &
  eventually accepts_connections "$port"
  ports_are_used
  DLOCK_STORE=etcd://127.0.0.1:$port
}

# The leases of the entries of `job`, in order of arrival.
leases() { etcdctl get --prefix --sort-by=CREATE dlock/job/ -w json | jq -r '.kvs[]?.lease'; }
all_have_other_leases() {  # <former leases>
  local now
  now=$(leases)
  [[ $(wc -l <<< "$now") == $(wc -l <<< "$1") && $(sort <<< "$now"$'\n'"$1" | uniq -d) == '' ]]
}

@test "through etcd's proxy, a run and its waiter keep their leases, and the waiter is granted the lock" {
  use_grpc_proxy
  # Long enough for a busy machine; each renewal takes a new lease, after a third of it.
  hold job --ttl 6s --store-timeout 1s --report "$report"
  queue job --ttl 6s --store-timeout 1s -- "${noting[@]}" "$order" waited
  fence=$(look job '.holders[0].fence')

  for _ in 1 2; do
    former=$(leases)
    eventually all_have_other_leases "$former"
  done
  assert_equal "$(look job '.holders[0].fence')" "$fence"
  let_go

  assert_exits 0 "$holder"
  assert_exits 0 "$waiter"
  noted waited
  assert_equal "$(of_report '"\(.outcome) \(.reason) \(.protected)"')" 'ran null true'
  assert_equal "$(keys dlock/job/)" ''
}

@test "through etcd's proxy, a new namespace can be used, a lock can be kept by hand, broken and inspected, and doctor warns" {
  use_grpc_proxy
  run dlock run --namespace fresh job -- echo ran
  assert_equal "$status $output" '0 ran'
  token=$(dlock acquire --ttl 20s job)
  dlock renew --ttl 60s job --token "$token"
  dlock renew --ttl 60s job --token "$token"
  assert_between "$(look job '.holders[0].expires_in_ms')" 50000 60000
  DLOCK_FENCE=$(look job '.holders[0].fence') DLOCK_NAME=job dlock check
  dlock release job --token "$token"
  hold job --ttl 6s --store-timeout 1s

  dlock break --yes job

  assert_exits 76 "$holder"
  assert_equal "$(keys dlock/job/)" ''
  run dlock doctor
  assert_status 1
  [[ $output == *'warning  leases '*'keep-alives are not answered, as behind etcd grpc-proxy'* ]]
}

@test "a proxy that speaks HTTP/1, or answers with a page, is named before a lock is granted" {
  for answer in 'HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html>' \
    'HTTP/1.0 503 Service Unavailable\r\n\r\n'; do
    rm -f "$BATS_TEST_TMPDIR/port"
    "$DLOCK_SOURCE/tests/faults/fake_server" "$BATS_TEST_TMPDIR/port" "$answer" 3>&- &
    eventually test -s "$BATS_TEST_TMPDIR/port"

    run dlock run --store "etcd://127.0.0.1:$(< "$BATS_TEST_TMPDIR/port")" --store-timeout 1s job -- echo ran

    assert_status 69
    [[ $output == *'an HTTP/1 server or proxy'* && $output != *ran ]]
  done
}

@test "a waiter whose watch ends at once again and again asks ten times a second, not thousands" {
  hold job
  "$DLOCK_SOURCE/tests/faults/etcd_relay" deaf "$BATS_TEST_TMPDIR/relay" "${etcd_client_port[1]}" \
    "$BATS_TEST_TMPDIR/asked" 3>&- &
  eventually test -s "$BATS_TEST_TMPDIR/relay"
  DLOCK_STORE=etcd://127.0.0.1:$(< "$BATS_TEST_TMPDIR/relay") run dlock run --wait 4s job -- true

  assert_status 75
  assert_between "$(wc -c < "$BATS_TEST_TMPDIR/asked")" 3 100
}

@test "a namespace without an end costs list a bounded memory, and is an error that says so" {
  # More than one part of 1000 keys, 10 KB each.
  local value i
  value=$(head -c 10000 /dev/zero | tr '\0' x)
  for i in {0..10}; do
    { echo; for j in {0..99}; do echo "put dlock/$i-$j/key $value"; done; echo; echo; } | etcdctl txn > /dev/null
  done
  "$DLOCK_SOURCE/tests/faults/etcd_relay" endless "$BATS_TEST_TMPDIR/relay" "${etcd_client_port[1]}" - 3>&- &
  eventually test -s "$BATS_TEST_TMPDIR/relay"
  DLOCK_STORE=etcd://127.0.0.1:$(< "$BATS_TEST_TMPDIR/relay")

  run bash -c 'ulimit -v 2000000; exec "$@"' - dlock list --store-timeout 10m
  assert_message 69
  [[ $output == *'more keys below dlock/ than dlock reads at once (256 MiB)'* ]]
}
