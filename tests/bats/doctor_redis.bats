#!/usr/bin/env bats
# dlock doctor and servers: one test for each state that is bad for locks.
# shellcheck disable=SC2034,SC2154  # for and from the helpers: second_pid; least_permissions, redis_...

setup() {
  load support
  load ../faults/findings
  load ../faults/locks
  load ../faults/redis
}

teardown() {
  [[ -z ${second_pid:-} ]] || end_processes "$second_pid"
  stop_redis
  kill_leftovers
}

# A server that keeps its data, and doctor as a user who may ask for everything.
use_good_server() {  # [<option of the server>...]
  use_redis_store --appendonly yes "$@"
  as_admin
}

as_admin() {
  unset DLOCK_PASSWORD_FILE
  export DLOCK_USER=admin DLOCK_PASSWORD=any
}

# --- Good ones ---

@test "a good server is said to be one, within a second" {
  use_good_server
  begin=$(now_ms)

  run dlock doctor

  assert_between $(($(now_ms) - begin)) 0 999
  assert_status 0
  for check in reachable login version role cluster permissions persistence eviction replicas clock \
    round-trip; do
    assert_found ok "$check" ''
  done
  assert_equal "${lines[-1]}" "no problems found in $(dlock doctor --json | jq -r .store)"
}

@test "a user with no more permissions than locks need is enough, and told what could not be checked" {
  use_redis_store --appendonly yes

  run dlock doctor

  assert_status 0
  assert_found ok permissions 'user dlock has all permissions that locks need'
  assert_found ok version .
  assert_found ok role 'a primary'
  assert_found ok clock ''
  assert_found info persistence 'INFO was refused' 'grant the permission: ACL SETUSER dlock +info'
  assert_found info eviction 'INFO was refused'
  assert_found info replicas 'INFO was refused'
  assert_output_contains 'no problems found; 3 checks could not be run in '
  run dlock doctor --json
  assert_equal "$(json '"\(.level) \(.not_checked)"')" 'ok 3'
  assert_equal "$(json '[.findings[] | select(.checked | not).check] | join(" ")')" \
    'persistence eviction replicas'
}

@test "the round trip is measured, and the ttl that it is good for is said" {
  use_good_server

  run dlock doctor
  assert_found ok round-trip 'the median of 20; fast enough for a --ttl of 500ms or more'
  run dlock doctor --json

  [[ $(json '.round_trip_ms > 0 and .round_trip_ms < 100 and .smallest_ttl_ms == 500') == true ]]
}

@test "doctor leaves nothing on a server" {
  use_good_server
  dlock run job -- true
  before=$(redis --scan | sort; redis DEBUG DIGEST)
  changes=$(redis INFO persistence | grep rdb_changes)

  dlock doctor

  assert_equal "$(redis --scan | sort; redis DEBUG DIGEST)" "$before"
  assert_equal "$(redis INFO persistence | grep rdb_changes)" "$changes"
}

# --- Bad ones ---

@test "a server that is not there is an error" {
  use_good_server
  stop_redis

  run dlock doctor

  assert_status 2
  assert_found error reachable "cannot reach $redis_socket" 'check that the server runs'
}

@test "a server that answers nothing is an error when the store's time is over" {
  use_good_server
  redis_freezes
  begin=$(now_ms)

  run dlock doctor --store-timeout 300ms

  assert_status 2
  assert_between $(($(now_ms) - begin)) 300 2000
  assert_found error reachable 'did not reply within 300ms'
}

@test "a server that stops answering half way is an error" {
  use_good_server --port 0
  redis CLIENT PAUSE 100000 WRITE

  run timeout 20 dlock doctor --store-timeout 300ms

  assert_status 2
  assert_found error reachable 'did not reply within 300ms' 'the server replied at first'
}

@test "a wrong password is an error" {
  use_redis_store
  export DLOCK_PASSWORD=wrong
  unset DLOCK_PASSWORD_FILE

  run dlock doctor

  assert_status 2
  assert_found error login 'login refused' 'check the user, the password'
  refute_output_contains wrong:
}

@test "a login that is missing is an error" {
  use_redis_store --requirepass secret
  redis ACL SETUSER default on '>secret'
  unset DLOCK_USER DLOCK_PASSWORD_FILE

  run dlock doctor

  assert_status 2
  assert_found error login 'the server requires a login' 'set a password'
}

@test "a database that is not there is an error" {
  use_good_server

  run dlock doctor --store "redis+unix:$redis_socket?db=99"

  assert_status 2
  assert_found error login 'no database 99' 'correct the store URL'
}

@test "commands that the user may not call are named, each of those that locks need" {
  use_redis_store --appendonly yes
  local permissions permission
  mapfile -t permissions < <(grep -o '+[^ ]*' <<< "$least_permissions" | grep -vxE '.(p?subscribe|publish|ping)')
  ((${#permissions[@]} > 20))
  for permission in "${permissions[@]}"; do
    redis ACL SETUSER dlock "-${permission#+}"

    run dlock doctor

    assert_status 2
    assert_found error permissions "user dlock may not call ${permission#+}" "ACL SETUSER dlock $permission"
    redis ACL SETUSER dlock "$permission"
  done
}

@test "commands and channels that only watch needs are a warning" {
  use_redis_store --appendonly yes
  for permission in publish subscribe psubscribe ping; do
    redis ACL SETUSER dlock "-$permission"

    run dlock doctor

    assert_status 1
    assert_found warning watch "may not call $permission, or" "ACL SETUSER dlock +$permission &dlock:*"
    redis ACL SETUSER dlock "+$permission"
  done
  redis ACL SETUSER dlock resetchannels '&others:*'

  run dlock doctor

  assert_status 1
  assert_found warning watch 'may not call publish, subscribe, psubscribe, or not on the channels dlock:*'
}

@test "several commands are named at once" {
  use_redis_store --appendonly yes
  redis ACL SETUSER dlock -blpop -lpush -zadd

  run dlock doctor

  assert_status 2
  assert_found error permissions 'may not call blpop, zadd, lpush' 'ACL SETUSER dlock +blpop +zadd +lpush'
}

@test "keys that the user may not use are named" {
  use_redis_store --appendonly yes
  redis ACL SETUSER dlock resetkeys '~others:*'

  run dlock doctor

  assert_status 2
  assert_found error permissions 'may not access all keys dlock:*' 'ACL SETUSER dlock ~dlock:*'
  refute_output_contains 'may not call'
}

@test "keys of the namespace that is asked for are what counts" {
  use_redis_store --appendonly yes

  run dlock doctor --namespace shop

  assert_status 2
  assert_found error permissions 'may not access all keys shop:*'
}

@test "a user who may only read the keys is told so" {
  use_redis_store --appendonly yes
  redis ACL SETUSER dlock resetkeys '%R~dlock:*' || skip 'this server knows no such permissions'

  run dlock doctor

  assert_status 2
  assert_found error permissions 'may not access all keys dlock:*'
}

@test "a server that keeps nothing is a warning" {
  use_redis_store
  as_admin

  run dlock doctor

  assert_status 1
  assert_found warning persistence 'none: a restart loses every lock' 'CONFIG SET appendonly yes'
  assert_output_contains '1 warning in '
}

@test "a server that only keeps snapshots is told to forget what came after" {
  use_redis_store --save '3600 1'
  as_admin

  run dlock doctor

  assert_status 0
  assert_found info persistence 'snapshots only'
}

@test "an eviction policy that can drop locks is a warning" {
  use_good_server --maxmemory 100mb --maxmemory-policy allkeys-lru

  run dlock doctor

  assert_status 1
  assert_found warning eviction 'allkeys-lru can evict held locks' 'CONFIG SET maxmemory-policy noeviction'
}

@test "an eviction policy without a limit is only told" {
  use_good_server --maxmemory-policy volatile-ttl

  run dlock doctor

  assert_status 0
  assert_found info eviction 'volatile-ttl evicts nothing'
}

@test "memory that is full is an error" {
  use_good_server --maxmemory 1

  run dlock doctor

  assert_status 2
  assert_found error work 'OOM' 'raise maxmemory'
}

# Starts a replica of the server, whose port has to be $redis_port.
start_replica() {
  second_socket=$BATS_TEST_TMPDIR/replica
  mkdir "$second_socket.d"
  "$redis_program" --port 0 --unixsocket "$second_socket" --save '' --dir "$second_socket.d" \
    --replicaof 127.0.0.1 "$redis_port" --masteruser admin --masterauth any \
    > "$second_socket.log" 2>&1 3>&- &
  second_pid=$!
  eventually is_linked
}

is_linked() { redis-cli -s "$second_socket" INFO replication | grep -q master_link_status:up; }
has_replica() { redis INFO replication | grep -q 'state=online'; }

@test "a replica that is taken for a primary is an error" {
  choose_redis_port
  use_good_server --port "$redis_port"
  start_replica
  unset DLOCK_USER DLOCK_PASSWORD

  run dlock doctor --store "redis+unix:$second_socket"

  assert_status 2
  assert_found error role "a replica of 127.0.0.1:$redis_port" 'name the primary'
}

@test "a primary with a replica that writes do not wait for is a warning" {
  choose_redis_port
  use_good_server --port "$redis_port"
  start_replica
  eventually has_replica

  run dlock doctor

  assert_status 1
  assert_found warning replicas 'min-replicas-to-write is not set' 'CONFIG SET min-replicas-to-write 1'
}

@test "a primary with a replica that writes wait for is well" {
  choose_redis_port
  use_good_server --port "$redis_port"
  start_replica
  eventually has_replica
  redis CONFIG SET min-replicas-to-write 1

  run dlock doctor

  assert_status 0
  assert_found ok replicas '1; writes require replicas'
}

@test "a primary that waits for more replicas than there are is an error" {
  use_good_server --min-replicas-to-write 1

  run dlock doctor

  assert_status 2
  assert_found error work 'NOREPLICAS' 'restore its replicas'
}

@test "a node of a cluster is an error" {
  choose_redis_port
  # The port for other nodes is that and 10,000.
  while ((redis_port > 55000)); do choose_redis_port; done
  use_good_server --port "$redis_port" --cluster-enabled yes

  run dlock doctor

  assert_status 2
  assert_found error cluster 'a member of a cluster' 'use a redis+cluster://'
}

# Stands between dlock and the server, and alters what that says.
alter() {  # <perl, as altered has it>
  local file=$BATS_TEST_TMPDIR/altered
  "$DLOCK_SOURCE/tests/faults/altered" "$file" "$redis_socket" "$1" 3>&- &
  eventually test -s "$file"
  DLOCK_STORE=redis://127.0.0.1:$(< "$file")
}

@test "a server that is too old is an error" {
  use_good_server
  # shellcheck disable=SC2016
  alter 's/((?:redis|valkey)_version:)\d/${1}5/g; s/(version\r\n\$\d+\r\n)\d/${1}5/'

  run dlock doctor

  assert_status 2
  assert_found error version 'is too old' 'upgrade: dlock needs Redis 6.2 or later, or Valkey 7.2 or later'
}

@test "clocks that are far apart are told, and harmless" {
  use_good_server
  # shellcheck disable=SC2016
  alter 's/(\*2\r\n\$10\r\n)(\d{10})\r\n/$1 . ($2 + 7290) . "\r\n"/ge'

  run dlock doctor

  assert_status 0
  assert_found info clock "2h1m ahead of this machine's" 'harmless'
}

@test "a server that answers nonsense is an error" {
  use_good_server
  alter 's/./x/sg'

  run timeout 20 dlock doctor

  assert_status 2
  assert_output_contains 'error'
}
