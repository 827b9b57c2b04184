#!/usr/bin/env bats
# A cluster: locks follow their slots, even when slots migrate and primaries fail. A member
# that does not respond for a second is considered dead; a lease lasts six.
# shellcheck disable=SC2034,SC2086  # the helpers use pids, and dlock DLOCK_STORE

setup() {
  load ../bats/support
  load redis
  load partition
  load sentinel
  load cluster
  load doctor
  use_cluster_store
}

lease=(--ttl 6s)

# --- A cluster that is well ---

@test "every verb works wherever the slots of its locks are, and doctor examines all primaries" {
  local name i owner silent=()
  for name in a b c d e f; do hold "$name"; done
  run dlock list --held --json
  assert_equal "$(json 'map(.name) | join(" ")')" 'a b c d e f'
  owners=$(for name in a b c d e f; do owner_of "$name"; done | sort -u | wc -l)
  assert_equal "$owners" 3

  for name in a d; do
    run dlock run "$name" -- touch "$ran"
    assert_status 75
  done

  dlock watch > "$said" 3>&- &
  watcher=$!
  eventually somebody_watches
  for name in g h i; do
    token=$(dlock acquire "$name")
    dlock renew "$name" --token "$token"
    dlock release "$name" --token "$token"
    dlock limit "$name" 5/1h
    dlock limit "$name" --reset
    dlock fence "$name" 7
    run dlock cache "$name" -- echo stored
    assert_equal "$status $output" '0 stored'
    run dlock cache "$name" -- false
    assert_equal "$status $output" '0 stored'
    dlock run --dedupe 1h "$name" -- touch "$ran.$name"
    run dlock history "$name" --json
    assert_equal "$(json 'length > 0')" true
  done
  for name in g h i; do eventually grep -q "released *$name " "$said"; done
  kill "$watcher"

  run dlock doctor
  assert_output_contains '3, serving all slots: 127.0.0.1:'
  assert_output_contains 'detected after 1.0s (cluster-node-timeout); a --ttl of '
  refute_output_contains 'error'

  # It waits for silent primaries together. None is replaced meanwhile.
  for i in 1 2 3 4 5 6; do member "$i" CONFIG SET cluster-node-timeout 60000; done
  # The one to which doctor is referred when it asks for the members has to reply.
  owner=$(member 1 EXISTS ':{}:z' | sed -n 's/^MOVED .*://p')
  for i in 1 2 3; do [[ ${ports[i]} == "${owner:-${ports[1]}}" ]] || silent+=("$i"); done
  freeze "${silent[@]}"
  run_doctor_for_one_time_limit
  assert_found ok primaries '3, serving all slots: '
  assert_status 2
}

somebody_watches() {
  local i
  for i in 1 2 3; do [[ $(member "$i" PUBSUB NUMPAT) != 1 ]] || return 0; done
  return 1
}

@test "members that announce another address are reached by --address-map" {
  local i
  for i in 1 2 3 4 5 6; do
    member "$i" CONFIG SET cluster-announce-bus-port $((ports[i] + 10000))
    member "$i" CONFIG SET cluster-announce-port "$(announced_port "$i")"
  done
  eventually announces_others
  DLOCK_STORE=redis+cluster://127.0.0.1:${ports[1]}
  local name
  name=$(name_elsewhere)

  run dlock run "$name" -- touch "$ran"
  assert_status 69
  assert_output_contains 'the address that the members of the cluster announce'
  assert_output_contains --address-map
  [[ ! -e $ran ]]

  DLOCK_ADDRESS_MAP=$(for i in 1 2 3; do echo "127.0.0.1:$(announced_port "$i")=localhost:${ports[i]}"; done | paste -sd ,)
  export DLOCK_ADDRESS_MAP
  run dlock run "$name" -- dlock check
  assert_equal "$status $output" '0 '
  run dlock list --json
  assert_equal "$(json '.[].name')" "$name"
}

# No program listens there.
announced_port() { echo $((ports[$1] + 30000)); }  # <number>

announces_others() {
  member 1 CLUSTER NODES > "$said"
  grep -q ":$(announced_port 2)@" "$said" && grep -q ":$(announced_port 3)@" "$said"
}

# Prints the name of a lock whose slot another member than the first has.
name_elsewhere() {
  local i
  for i in {1..50}; do
    [[ $(member 1 EXISTS "dlock:{job$i}") == MOVED* ]] || continue
    echo "job$i"
    return
  done
}

# Asserts that a member refuses these verbs where a single server is expected.
assert_all_refused() {  # <number> <verb with its words>...
  local verb
  for verb in "${@:2}"; do
    DLOCK_STORE=redis://127.0.0.1:${ports[$1]} run timeout 60 dlock $verb
    assert_status 78
    assert_output_contains 'is a member of a cluster: use redis+cluster://'
  done
}

@test "a server that is not a member of a cluster is refused, and so is a member as a single server" {
  redis_root=$BATS_TEST_TMPDIR/alone
  mkdir "$redis_root"
  : > "$redis_root/conf"
  read -r port <<< "$(free_ports 1)"
  "$redis_program" --port "$port" --bind 127.0.0.1 --dir "$redis_root" --save '' > /dev/null 3>&- &
  pids[7]=$!
  ports[7]=$port
  eventually member_answers 7

  DLOCK_STORE=redis+cluster://127.0.0.1:$port run dlock run job -- touch "$ran"
  assert_status 78
  assert_output_contains "127.0.0.1:$port is not a member of a cluster: use redis://127.0.0.1:$port"

  cd "$BATS_TEST_TMPDIR"
  assert_all_refused "$(other_than_owner_of a)" 'run a -- touch ran' 'status a' list 'list nothing*' history 'history a' \
    'acquire a' 'break --yes a' 'limit a 1/1h' watch 'watch a' 'fence a 1'
  assert_all_refused "$(owner_of a)" 'run a -- touch ran' 'status a' list watch
  [[ ! -e ran ]]
  assert_equal "$(dlock status --json a | jq -r .state)" free
}

# --- Slots that move ---

@test "a lock whose slot is being migrated is not granted, and kept, renewed and released by its holder" {
  local first
  hold job --ttl 60s --slots 2
  hold job --ttl 60s --slots 2
  begin_move job
  move_keys 'dlock:{job}'
  for _ in 1 2; do
    run dlock run --slots 2 --store-timeout 1s job -- touch "$ran"
    assert_status 69
    assert_output_contains "the lock's slot is being migrated"
  done
  move_keys
  end_move
  run dlock run --slots 2 job -- touch "$ran"
  assert_status 75
  [[ ! -e $ran ]]
  let_go
  assert_exits 0 "$holder"

  hold kept "${lease[@]}" --report "$report"
  begin_move kept
  move_keys 'dlock:{kept}' 'dlock:{kept}:h' 'dlock:{kept}:s'
  await_renewal_at "$to"
  end_move
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.protected)"')" 'ran true'

  # It is not released in part.
  hold handed --ttl 60s --store-timeout 20s
  queue handed --ttl 30s -- touch "$ran"
  begin_move handed
  before=$(told_to_try_again)
  move_keys 'dlock:{handed}:q' 'dlock:{handed}:w'
  let_go
  eventually was_told_to_try_again
  assert_equal "$(member "$from" EXISTS 'dlock:{handed}')" 1
  move_keys
  end_move
  assert_exits 0 "$holder"
  assert_exits 0 "$waiter"
  [[ -e $ran ]]

  # An attempt that runs out of time also says so.
  rm "$ran"
  hold late --ttl 30s --slots 2
  begin_move late
  move_keys 'dlock:{late}'
  # Less time than a failover takes. LeakSanitizer does not work under strace.
  ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 \
    strace -f -qq -e trace=recvfrom -o "$BATS_TEST_TMPDIR/calls" \
    dlock run --slots 2 --store-timeout 1500ms late -- touch "$ran" 2> "$said" 3>&- &
  local run=$!
  eventually grep -q -e TRYAGAIN -e ASK "$BATS_TEST_TMPDIR/calls"
  freeze "$from"

  assert_exits 69 "$run"

  grep -q "the lock's slot is being migrated" "$said"
  [[ ! -e $ran ]]
}

# The lease was moved with its remaining time; a renewal extends it.
await_renewal_at() {
  at=$1
  before=$(asking_pttl "$1")
  eventually has_more_left
}

asking_pttl() { printf 'ASKING\nPTTL dlock:{kept}\n' | timeout 60 redis-cli -p "${ports[$1]}" | tail -n 1; }

has_more_left() {
  local now
  now=$(asking_pttl "$at")
  ((now > before)) && return
  before=$now
  return 1
}

told_to_try_again() { member "$from" INFO errorstats | grep TRYAGAIN || true; }
was_told_to_try_again() { [[ $(told_to_try_again) != "$before" ]]; }

@test "a slot is migrated to and fro under a semaphore, and never admits too many holders" {
  inside=$BATS_TEST_TMPDIR/inside
  mkdir "$inside"
  for i in 1 2 3 4 5 6; do
    (for _ in 1 2 3 4 5; do
      dlock run --slots 2 -w 60s "${lease[@]}" --store-timeout 2s job -- sh -c \
        ': > "$1/$$"; dir=$1 too_many=$2; set -- "$1"/*; [ $# -le 2 ] || echo $# >> "$too_many"; sleep 0.02; rm "$dir/$$"' \
        - "$inside" "$BATS_TEST_TMPDIR/too_many" 2>> "$said" || echo "failed $?" >> "$BATS_TEST_TMPDIR/failed"
    done) 3>&- &
    runners+=("$!")
  done
  while kill -0 "${runners[@]}" 2> /dev/null; do
    begin_move job > /dev/null
    move_keys > /dev/null || true
    move_keys > /dev/null || true
    end_move > /dev/null
  done
  wait "${runners[@]}"

  [[ ! -e $BATS_TEST_TMPDIR/too_many ]]
  [[ ! -e $BATS_TEST_TMPDIR/failed ]] || { cat "$said" >&2; false; }
}

@test "the acknowledgement of a replica that is no member does not stand for that of a member" {
  local i owner
  for i in 1 2 3 4 5 6; do member "$i" CONFIG SET cluster-node-timeout 60000; done > "$said"
  owner=$(owner_of job)
  ports[7]=$(free_ports 1)
  mkdir "$fleet/7"
  printf '%s\n' "port ${ports[7]}" 'bind 127.0.0.1' "dir $fleet/7" 'save ""' \
    "replicaof 127.0.0.1 ${ports[owner]}" > "$fleet/7/conf"
  start_member 7
  eventually has_two_replicas "$owner"
  run dlock run --replicas all job -- echo ran
  assert_equal "$status $output" '0 ran'

  for i in 1 2 3 4 5 6; do [[ $(member "$i" ROLE | sed -n 3p) != "${ports[owner]}" ]] || freeze "$i"; done
  run dlock run --replicas all --store-timeout 1s job -- touch "$ran"

  assert_status 69
  assert_output_contains '1 of 2 replicas have acknowledged the lease (--replicas)'
  [[ ! -e $ran ]]
}

has_two_replicas() { [[ $(member "$1" INFO replication | grep -c 'state=online') == 2 ]]; }  # <number>

# --- A primary that goes ---

@test "a primary that is killed costs the run nothing with --replicas all, and -w waits for the new one" {
  hold job --ttl 15s --replicas all --report "$report"
  old=$(owner_of job)
  local other
  other=$(another_of "$old")

  crash "$old"
  run dlock run -w 30s "$other" -- echo ran

  assert_status 0
  assert_output_contains ran
  eventually has_other_owner
  # Until the new primary has a replica, no replica can acknowledge a renewal.
  start_member "$old"
  # Longer than the lease that the old one granted.
  taken_over_at=$(now_ms)
  eventually has_been_renewed_for 16000
  run dlock run "${lease[@]}" job -- touch "$ran"
  assert_status 75
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(of_report '"\(.outcome) \(.reason) \(.protected)"')" 'ran null true'
}

has_other_owner() {
  local owner
  owner=$(owner_of job)
  [[ -n $owner && $owner != "$old" && $(member "$owner" ROLE | head -n 1) == master ]]
}

# Whether the new primary shows the lock as held for this long.
has_been_renewed_for() {  # <ms>
  is_held_by_owner || return
  (($(now_ms) - taken_over_at > $1))
}

is_held_by_owner() { [[ $(member "$(owner_of job)" EXISTS 'dlock:{job}') == 1 ]]; }

# Prints the name of another lock than `job` that this member has.
another_of() {  # <number>
  local i
  for i in {1..50}; do
    [[ $(member "$1" EXISTS "dlock:{other$i}" 2> /dev/null) == MOVED* ]] || { echo "other$i"; return; }
  done
}

# --- Hints: where a lock was the last time ---

hints_of() { compgen -G "$XDG_RUNTIME_DIR/dlock/server.*"; }

# How often members have redirected a client.
redirects() {
  local i
  for i in 1 2 3 4 5 6; do member "$i" INFO errorstats; done |
    sed -n 's/^errorstat_MOVED:count=\([0-9]*\).*/\1/p' | awk '{ n += $1 } END { print n + 0 }'
}

# Sets $name to a lock that is not on the first server of the URL.
use_a_lock_elsewhere() {
  for name in a b c d e f g h; do
    owner=$(owner_of "$name")
    ((owner == 1)) || return 0
  done
  return 1
}

# The lock has been used, so there is a hint. The member that has it is second in the URL.
have_a_hint() {
  use_a_lock_elsewhere
  DLOCK_STORE=redis+cluster://127.0.0.1:${ports[1]},127.0.0.1:${ports[owner]}
  dlock run "$name" -- true
  hint=$(hints_of)
  said_there=$(< "$hint")
  assert_equal "$said_there" "127.0.0.1:${ports[owner]}"
}

# Asserts that a hint with this text changes nothing, and is corrected.
assert_put_right() {  # <text>
  printf '%s\n' "$1" > "$hint"
  run dlock run "$name" -- echo ran
  assert_equal "$status $output" '0 ran'
  assert_equal "$(< "$hint")" "$said_there"
}

# A server that accepts connections, records what it receives, and never replies.
start_eavesdropper() {
  perl -MIO::Socket::INET -e '
    $| = 1;
    my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1") or die;
    open my $file, ">", "$ARGV[0].port" or die;
    print $file $server->sockport, "\n";
    close $file;
    open my $heard, ">", $ARGV[0] or die;
    $heard->autoflush;
    while (my $client = $server->accept) {
      print $heard "came\n";
      while (sysread $client, my $text, 4096) { print $heard $text }
    }' "$BATS_TEST_TMPDIR/heard" 3>&- &
  pids[8]=$!
  eventually test -s "$BATS_TEST_TMPDIR/heard.port"
}

@test "the member that had the lock is asked first the next time, and a wrong hint is corrected or ignored" {
  have_a_hint
  before=$(redirects)
  ((before > 0))
  run dlock run "$name" -- echo ran
  assert_equal "$status $output" '0 ran'
  assert_equal "$(redirects)" "$before"

  third=$((owner == 2 ? 3 : 2))
  start_eavesdropper
  for text in '' garbage "127.0.0.1:${ports[owner]} " '/etc/passwd:1' "127.0.0.1:${ports[1]}" \
    "127.0.0.1:${ports[third]}" "127.0.0.1:$(< "$BATS_TEST_TMPDIR/heard.port")" \
    "$(head -c 100000 /dev/zero | tr '\0' 1)"; do
    assert_put_right "$text"
  done

  # Only servers of the URL are asked.
  [[ ! -s $BATS_TEST_TMPDIR/heard ]]

  # One that others could have written is ignored.
  read -r unused <<< "$(free_ports 1)"
  echo "127.0.0.1:$unused" > "$BATS_TEST_TMPDIR/elsewhere"
  ln -sf "$BATS_TEST_TMPDIR/elsewhere" "$hint"

  run dlock run "$name" -- echo ran

  assert_equal "$status $output" '0 ran'
  assert_equal "$(< "$BATS_TEST_TMPDIR/elsewhere")" "127.0.0.1:$unused"

  rm -r "$XDG_RUNTIME_DIR/dlock"
  chmod 770 "$XDG_RUNTIME_DIR"
  run dlock run "$name" -- echo ran
  assert_equal "$status $output" '0 ran'
  [[ ! -e $XDG_RUNTIME_DIR/dlock ]]

  # One to a silent member costs only a part of the time.
  chmod 700 "$XDG_RUNTIME_DIR"
  dlock run "$name" -- true
  assert_equal "$(< "$hint")" "$said_there"
  freeze "$owner"
  eventually has_other_owner_by_first "$name"
  run dlock run --store-timeout 10s "$name" -- echo ran
  go_on "$owner"
  assert_equal "$status $output" '0 ran'
}

# Whether the first server of the URL says that another one now has the lock.
has_other_owner_by_first() { # <name>
  local now
  now=$(member 1 GET "dlock:{$1}" 2>&1 | sed -n 's/^.*MOVED [0-9]* .*:\([0-9]*\)$/\1/p')
  [[ -n $now && $now != "${ports[owner]}" ]]
}
