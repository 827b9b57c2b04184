#!/usr/bin/env bats
# Name servers and networks of which a part is silent: what works is used within the budget.
# shellcheck disable=SC2034  # helpers use variables that are set here

setup() {
  load ../bats/support
  load ../bats/etcd
  load locks
  use_private_store
  use_own_network
}

teardown() {
  stop_etcd
  kill_network
  kill_leftovers
}

# Kills all processes in the test's own network, among them the servers.
kill_network() {
  local network process
  [[ -n ${mounts:-} ]] || return 0
  network=$(readlink "/proc/$mounts/ns/net") || return 0
  [[ $network != "$(readlink /proc/self/ns/net)" ]] || return 0
  for process in /proc/[0-9]*; do
    [[ $(readlink "$process/ns/net" 2> /dev/null) != "$network" ]] ||
      kill -KILL "${process##*/}" 2> /dev/null || true
  done
}

# Makes a network and files in /etc for `there`, with a Redis server at port
# 6379 of 127.0.0.1 and ::1.
use_own_network() {
  needs_root
  unshare --net --mount --propagation private sleep 600 3>&- &
  mounts=$!
  eventually other_mounts "$mounts"
  there ip link set lo up
  cd "$BATS_TEST_TMPDIR" || return
  etc resolv.conf 'nameserver 127.0.0.1'
  etc hosts ''
  there redis-server --port 6379 --bind 127.0.0.1 ::1 --save '' --dir "$PWD" > redis.log 2>&1 3>&- &
  eventually there redis-cli PING
}

# Replaces a file in /etc there.
etc() {  # <file> <text>
  printf '%s\n' "$2" > "etc-$1"
  there mount --bind "etc-$1" "/etc/$1"
}

there() { nsenter --target "$mounts" --mount --net --wd="$PWD" -- "$@"; }

# Starts a name server at 127.0.0.1, or at these addresses of 127.0.0.0/8.
name_server() {  # [--at <address>,...] <rule>...
  local at=127.0.0.1
  [[ $1 != --at ]] || { at=$2 && shift 2; }
  there "$DLOCK_SOURCE/tests/faults/fake_name_server" "$at" "$@" >> questions 2>&1 3>&- &
  eventually grep -q "^ready" questions || return
  : > questions
}

# Asserts that a run with the default budget of two seconds gets its lock, within so many
# milliseconds.
assert_granted_within() {  # <milliseconds> <store> [<option>...]
  local started
  started=$(now_ms)
  run there dlock run --store "$2" "${@:3}" job -- echo granted
  assert_status 0
  assert_equal "$output" granted
  local took=$(($(now_ms) - started))
  ((took < $1)) || { echo "took $took ms, not less than $1" >&2; return 1; }
}

# From then on packets to this address are dropped, without an error.
black_hole() {  # <address>...
  there ip link add hole type veth peer name pit
  there ip link set hole up
  there ip link set pit up
  local address
  for address; do
    there ip route add "$address" dev hole
    there ip neighbour add "$address" lladdr 02:00:00:00:00:01 dev hole
  done
  # Packets to be dropped need an address to come from.
  there ip address add 10.211.0.1/32 dev hole
  there ip address add fd00:211::1/128 dev hole nodad
}

@test "an IPv4 address is used soon if the name server never answers for IPv6" {
  name_server '*/AAAA=silence' 'db.test/A=127.0.0.1'

  assert_granted_within 1000 redis://db.test
  assert_granted_within 1000 redis://db.test --wait 10s
  assert_granted_within 1000 redis://db.test --ttl 90s --store-timeout 8s
}

@test "with a small budget, IPv6 is waited for a part of it" {
  name_server '*/AAAA=silence' 'db.test/A=127.0.0.1'

  assert_granted_within 1000 redis://db.test --store-timeout 400ms
}

@test "an IPv6 address is used if the name server never answers for IPv4" {
  name_server '*/A=silence' 'db.test/AAAA=::1'

  assert_granted_within 1000 redis://db.test
}

@test "an answer for one family is enough, whatever the one for the other is" {
  local answer
  local -a rules=()
  for answer in nodata nxdomain servfail refused; do
    rules+=("$answer.test/AAAA=$answer" "$answer.test/A=127.0.0.1"
      "$answer-4.test/A=$answer" "$answer-4.test/AAAA=::1")
  done
  name_server "${rules[@]}"

  for answer in nodata nxdomain servfail refused; do
    assert_granted_within 1000 "redis://$answer.test"
    assert_granted_within 1000 "redis://$answer-4.test"
  done
}

@test "another name server is asked while the first ones are silent" {
  etc resolv.conf $'nameserver 127.0.0.2\nnameserver 127.0.0.3\nnameserver 127.0.0.1'
  name_server '*/AAAA=nodata' 'db.test/A=127.0.0.1'

  name_server --at 127.0.0.2,127.0.0.3 '*/*=silence'

  assert_granted_within 2000 redis://db.test
  assert_granted_within 1000 redis://db.test --store-timeout 500ms
}

@test "what fits into a datagram is used if no longer answer can be had" {
  name_server '*/AAAA=nodata' 'db.test/A=cut:127.0.0.1'

  assert_granted_within 2000 redis://db.test
}

@test "a name with a dot is used as it is while the search domains are silent" {
  etc resolv.conf $'nameserver 127.0.0.1\nsearch silent.test\noptions ndots:5'
  name_server '*.silent.test/*=silence' '*/AAAA=nodata' 'db.test/A=127.0.0.1'

  assert_granted_within 2000 redis://db.test
}

@test "no other server is used while one of that name may exist" {
  etc resolv.conf $'nameserver 127.0.0.1\nsearch silent.test other.test'
  name_server '*.silent.test/*=silence' '*/AAAA=nodata' 'db.other.test/A=127.0.0.1'

  run there dlock run --store redis://db --store-timeout 1s job -- true

  assert_status 69
  assert_output_contains 'the name server of db:6379 did not reply within 1.0s'
}

@test "a search domain without the name is passed over" {
  etc resolv.conf $'nameserver 127.0.0.1\nsearch none.test other.test'
  name_server 'db.other.test/AAAA=nodata' 'db.other.test/A=127.0.0.1'

  assert_granted_within 1000 redis://db
}

@test "addresses without a route and those that drop packets are passed over" {
  name_server 'no-route.test/AAAA=2001:db8::1' 'no-route.test/A=127.0.0.1' \
    'dropped.test/AAAA=fd00:211::2' 'dropped.test/A=127.0.0.1' \
    'several.test/AAAA=nodata' \
    'several.test/A=10.211.0.2,10.211.0.3,10.211.0.4,10.211.0.5,10.211.0.6,127.0.0.1'
  black_hole 10.211.0.{2..6} fd00:211::2

  assert_granted_within 1000 redis://no-route.test
  assert_granted_within 1000 redis://dropped.test
  assert_granted_within 1000 redis://dropped.test --store-timeout 600ms
  assert_granted_within 2000 redis://several.test
  assert_granted_within 1000 redis://several.test --store-timeout 500ms
}

@test "a late answer is used after the address of the other family has failed" {
  name_server 'db.test/A=127.0.0.9' 'db.test/AAAA=700:::1'

  assert_granted_within 1500 redis://db.test
}

@test "an answer at the end of the budget leaves time for a lock" {
  name_server 'db.test/AAAA=silence' 'db.test/A=1700:127.0.0.1'

  assert_granted_within 2500 redis://db.test
}

@test "a name in the file of hosts has only the addresses given there" {
  etc hosts $'127.0.0.1 four.test\n::1 six.test'
  name_server '*/*=silence'

  assert_granted_within 1000 redis://four.test
  assert_granted_within 1000 redis://six.test
  assert_equal "$(< questions)" ''
}

@test "localhost needs neither name servers nor the file of hosts" {
  local text
  for text in '' 'nameserver 127.0.0.7'; do
    etc resolv.conf "$text"

    assert_granted_within 1000 redis://localhost
  done
}

@test "names without name servers are a failure that says so at once" {
  local empty=$BATS_TEST_TMPDIR/missing
  mkdir "$empty"
  there mount --bind "$empty" /etc

  run there dlock run --store redis://db.test job -- true

  assert_status 69
  assert_one_line
  assert_output_contains 'cannot reach db.test:6379: cannot resolve the name'
}

@test "a refused connection is told although the other family is silent" {
  name_server '*/AAAA=silence' 'db.test/A=127.0.0.9'

  run there dlock run --store redis://db.test --store-timeout 1s job -- true

  assert_status 69
  assert_output_contains 'cannot reach db.test:6379: connection refused'
}

@test "the other servers of a quorum, Sentinel and etcd are used if the name of one is silent" {
  name_server 'silent.test/*=silence' 'db.test/AAAA=silence' 'db.test/A=127.0.0.1'
  local i
  for i in 1 2; do
    there redis-server --port "700$i" --bind 127.0.0.1 --save '' > /dev/null 3>&- &
    eventually there redis-cli -p "700$i" PING
  done
  export DLOCK_MAX_TTL=0
  assert_granted_within 2500 redis+quorum://silent.test,db.test:7001,db.test:7002 --quiet
  assert_granted_within 2500 redis+quorum://db.test:7001,db.test:7002,silent.test --quiet

  for i in 1 2; do
    printf '%s\n' "port 800$i" 'sentinel monitor main 127.0.0.1 6379 1' > "sentinel-$i.conf"
    there redis-server "sentinel-$i.conf" --sentinel > /dev/null 3>&- &
    eventually there redis-cli -p "800$i" PING
  done
  assert_granted_within 2500 redis+sentinel://silent.test,db.test:8001,db.test:8002/main

  there env -u DLOCK_TEST_ID etcd --data-dir "$PWD/etcd" --listen-client-urls http://127.0.0.1:2379 \
    --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
    --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster default=http://127.0.0.1:2380 \
    --log-level error > etcd.log 2>&1 3>&- &
  etcd_pids=($!)
  EVENTUALLY_MS=60000 eventually there etcdctl get x
  assert_granted_within 2500 etcd://silent.test,db.test
}
