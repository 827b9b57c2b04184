#!/usr/bin/env bats
# `dlock doctor` on Redis servers: one test for each state that is bad for locks.
# shellcheck disable=SC2034,SC2086  # second_pid; helpers set least_permissions, redis_...

setup() {
  load support
  load ../faults/doctor
  load ../faults/redis
}

# Starts a server that keeps its data, with a login that has all permissions for doctor.
use_good_server() {  # [<option of the server>...]
  use_redis_store --appendonly yes "$@"
  as_admin
}

as_admin() {
  unset DLOCK_PASSWORD_FILE
  export DLOCK_USER=admin DLOCK_PASSWORD=any
}

# --- Servers without problems ---

@test "the fewest permissions that locks need suffice, and the checks that need more are listed" {
  use_redis_store --appendonly yes

  assert_doctor_finds 0 ok permissions 'user dlock has all permissions that locks need'
  assert_found ok version .
  assert_found ok role 'a primary'
  assert_found ok clock ''
  assert_found info persistence 'INFO was refused' "grant the permission: ACL SETUSER dlock +info '+config|get'"
  assert_found info eviction 'INFO was refused'
  assert_found info replicas 'INFO was refused'
  assert_found info clients 'INFO was refused'
  assert_output_contains 'no problems found; 4 checks could not be run in '
  run dlock doctor --json
  assert_equal "$(json '"\(.level) \(.not_checked)"')" 'ok 4'
  assert_equal "$(json '[.findings[] | select(.checked | not).check] | join(" ")')" \
    'persistence eviction replicas clients'
}

@test "a server without problems is reported as such, with the TTL that its round trip allows, and is not changed" {
  use_good_server
  dlock run job -- true
  before=$(redis --scan | sort; redis DEBUG DIGEST)
  changes=$(redis INFO persistence | grep rdb_changes)

  run dlock doctor

  assert_status 0
  for check in reachable login version role cluster permissions persistence eviction replicas clients \
    clock round-trip; do
    assert_found ok "$check" ''
  done
  assert_found ok round-trip 'the median of 20; fast enough for a --ttl of 500ms or more'
  local last=${lines[-1]}
  run dlock doctor --json
  assert_equal "$last" "no problems found in $(json .store)"
  [[ $(json '.round_trip_ms > 0 and .round_trip_ms < 100 and .smallest_ttl_ms == 500') == true ]]

  assert_equal "$(redis --scan | sort; redis DEBUG DIGEST)" "$before"
  assert_equal "$(redis INFO persistence | grep rdb_changes)" "$changes"
}

# --- Servers with problems ---

@test "a server that cannot be reached, does not reply or stops replying halfway is an error" {
  use_good_server
  redis CLIENT PAUSE 100000 WRITE
  DLOCK_STORE_TIMEOUT=300ms assert_doctor_finds 2 error reachable 'did not reply within' 'the server replied at first'

  redis_freezes
  DLOCK_STORE_TIMEOUT=300ms assert_doctor_finds 2 error reachable 'did not reply within'

  stop_redis
  assert_doctor_finds 2 error reachable "cannot reach $redis_socket" 'check that the server runs'
}

@test "a wrong password, a missing login or database is an error" {
  use_good_server
  DLOCK_STORE="redis+unix:$redis_socket?db=99" assert_doctor_finds 2 error login 'no database 99' 'correct the store URL'

  DLOCK_USER=dlock DLOCK_PASSWORD=wrong assert_doctor_finds 2 error login 'login refused' 'check the user, the password'
  refute_output_contains wrong:

  redis ACL SETUSER default on resetpass '>secret'
  unset DLOCK_USER DLOCK_PASSWORD
  assert_doctor_finds 2 error login 'password required' 'check the user, the password'
}

# Each command that locks need, as the server has it: the first word of each permission.
commands_needed() {
  grep -o '+[^ ]*' <<< "$least_permissions" | sed 's/^+//; s/|.*//' | tr '[:lower:]' '[:upper:]'
}

@test "each command that locks need and the server does not know is named, by doctor and by the verb that needs it" {
  use_private_store
  cd "$BATS_TEST_TMPDIR"
  local command verb
  for command in $(commands_needed); do
    redis_root=$BATS_TEST_TMPDIR/$command
    redis_socket=$redis_root/socket
    mkdir "$redis_root"
    redis-server --port 0 --unixsocket "$redis_socket" --save '' --appendonly yes --dir "$redis_root" \
      --rename-command "$command" '' > "$redis_root/log" 2>&1 3>&- &
    redis_pid=$!
    eventually grep -q 'ready to accept' "$redis_root/log"
    export DLOCK_STORE=redis+unix:$redis_socket

    run dlock doctor
    if [[ $command == CLIENT ]]; then
      assert_status 0  # only names a connection
    elif [[ $command == @(PUBLISH|SUBSCRIBE|PSUBSCRIBE|PING|XADD|XRANGE) ]]; then
      assert_found warning commands "the server does not know $command (renamed or disabled"
    else
      assert_status 2
      assert_found error commands "the server does not know $command" "remove the server's rename-command"
    fi
    case $command in
      EVALSHA | EVAL | TIME | SET | HSET) verb='run job -- touch ran' ;;
      SCAN) verb=list ;;
      SUBSCRIBE) verb='watch job' ;;
      PSUBSCRIBE) verb=watch ;;
      *) verb= ;;
    esac
    if [[ -n $verb ]]; then
      run timeout 60 dlock $verb
      assert_message 78 "the server does not know $command (renamed or disabled"
    fi
    stop_redis
  done
}

@test "without permission to name its connections a user has what it needs: doctor finds no fault, and locks work" {
  use_redis_store --appendonly yes
  redis ACL SETUSER dlock -client

  run dlock doctor
  assert_status 0
  assert_found ok permissions 'user dlock has all permissions that locks need'

  hold job
  queue job -- touch "$BATS_TEST_TMPDIR/ran"
  let_go
  wait "$waiter"
  [[ -e $BATS_TEST_TMPDIR/ran ]]
}

@test "keys that the user may not access or only read, and commands that are missing, are named" {
  use_redis_store --appendonly yes
  run dlock doctor --namespace shop
  assert_status 2
  assert_found error permissions 'may not access all keys shop:*'

  redis ACL SETUSER dlock -blpop -lpush -zadd
  assert_doctor_finds 2 error permissions 'may not call blpop, zadd, lpush' 'ACL SETUSER dlock +blpop +zadd +lpush'

  redis ACL SETUSER dlock +blpop +lpush +zadd resetkeys '~others:*'
  assert_doctor_finds 2 error permissions 'may not access all keys dlock:*' "ACL SETUSER dlock '~dlock:*'"
  refute_output_contains 'may not call'

  redis ACL SETUSER dlock resetkeys '%R~dlock:*' || skip 'this server knows no such permissions'
  assert_doctor_finds 2 error permissions 'may not access all keys dlock:*'
}

@test "persistence and eviction are judged by what they can do to locks, and full memory is an error" {
  use_redis_store
  as_admin
  assert_doctor_finds 1 warning persistence 'none: a restart loses every lock' 'CONFIG SET appendonly yes'
  assert_output_contains '1 warning in '

  redis CONFIG SET save '3600 1'
  redis CONFIG SET maxmemory-policy volatile-ttl
  assert_doctor_finds 0 info persistence 'snapshots only'
  assert_found info eviction 'volatile-ttl evicts nothing'

  redis CONFIG SET maxmemory-policy allkeys-lru
  redis CONFIG SET maxmemory 100mb
  assert_doctor_finds 1 warning eviction 'allkeys-lru can evict held locks' 'CONFIG SET maxmemory-policy noeviction'

  redis CONFIG SET maxmemory-policy noeviction
  redis CONFIG SET maxmemory 1
  assert_doctor_finds 2 error work 'OOM' 'raise maxmemory'
}

# Starts a replica of the server, which has to listen on $redis_port.
start_replica() {
  second_socket=$BATS_TEST_TMPDIR/replica
  mkdir "$second_socket.d"
  "$redis_program" --port 0 --unixsocket "$second_socket" --save '' --dir "$second_socket.d" \
    --replicaof 127.0.0.1 "$redis_port" --masteruser admin --masterauth any \
    > "$second_socket.log" 2>&1 3>&- &
  eventually is_linked
}

is_linked() { redis-cli -s "$second_socket" INFO replication | grep -q master_link_status:up; }
has_replica() { redis INFO replication | grep -q 'state=online'; }

@test "a replica as the store is an error, and min-replicas-to-write is judged by the replicas that there are" {
  choose_redis_port
  use_good_server --port "$redis_port"
  start_replica
  eventually has_replica
  assert_doctor_finds 1 warning replicas 'min-replicas-to-write is not set' 'CONFIG SET min-replicas-to-write 1'

  redis CONFIG SET min-replicas-to-write 1
  assert_doctor_finds 0 ok replicas '1; writes require replicas'

  redis CONFIG SET min-replicas-to-write 2
  assert_doctor_finds 2 error work 'NOREPLICAS' 'restore its replicas'

  unset DLOCK_USER DLOCK_PASSWORD
  DLOCK_STORE="redis+unix:$second_socket" assert_doctor_finds 2 error role "a replica of 127.0.0.1:$redis_port" 'name the primary'
}

# Opens connections that stay, and waits for them. The check needs another one.
connect_idle() {  # <number>
  idle=()
  while ((${#idle[@]} < $1)); do
    open_connection
  done
  eventually has_clients $(($1 + 1))
}

open_connection() {
  redis-cli -s "$redis_socket" --user admin --pass any --no-auth-warning SUBSCRIBE any > /dev/null 3>&- &
  idle+=($!)
}

has_clients() { redis INFO clients | grep -qx "connected_clients:$1."; }

@test "a server with few free connections is a warning, and that it has refused some is information" {
  use_good_server --maxclients 8
  connect_idle 6

  assert_doctor_finds 1 warning clients '7 of 8 connections in use, room for 1 waiters or 0 holders' \
    'CONFIG SET maxclients 32'

  open_connection
  eventually dlock_is_refused_or_connect
  end_processes "${idle[@]}"
  eventually has_clients 1

  assert_doctor_finds 0 info clients ' connections since its start' 'raise maxclients, or let hosts start at different times'
}

# The server may still have closed connections, and refuse the last one because of them.
dlock_is_refused_or_connect() {
  dlock status job 2>&1 | grep -q 'max number of clients' || { open_connection; false; }
}

# Puts a proxy between dlock and the server, which alters the server's replies.
alter() {  # <Perl expression for tests/faults/altering_relay>
  local file=$BATS_TEST_TMPDIR/altered
  rm -f "$file"
  "$DLOCK_SOURCE/tests/faults/altering_relay" "$file" "$redis_socket" "$1" 3>&- &
  eventually test -s "$file"
  DLOCK_STORE=redis://127.0.0.1:$(< "$file")
}

@test "a server that is too old or whose replies are malformed is an error, and a clock that differs is harmless" {
  use_good_server
  alter 's/((?:redis|valkey)_version:)\d/${1}5/g; s/(version\r\n\$\d+\r\n)\d/${1}5/'

  assert_doctor_finds 2 error version 'is too old' 'upgrade: dlock needs Redis 6.2 or later, or Valkey 7.2 or later'

  alter 's/(\*2\r\n\$10\r\n)(\d{10})\r\n/$1 . ($2 + 7290) . "\r\n"/ge'

  assert_doctor_finds 0 info clock "2h1m ahead of this machine's" 'harmless'

  alter 's/./x/sg'

  run timeout 60 dlock doctor

  assert_status 2
  assert_output_contains 'error'
}
