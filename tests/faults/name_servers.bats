#!/usr/bin/env bats
# Name servers and networks of which a part is silent: what works is used within the budget.
# shellcheck disable=SC2034  # helpers use variables that are set here

setup() {
  load ../bats/support
  load ../bats/etcd
  use_private_store
  use_own_network
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
  serve redis-server --port 6379 --bind 127.0.0.1 ::1 --save '' --dir "$PWD" > redis.log 2>&1 3>&- &
  eventually there redis-cli PING
}

# Replaces a file in /etc there.
etc() {  # <file> <text>
  local is_new=
  [[ -e etc-$1 ]] || is_new=1
  printf '%s\n' "$2" > "etc-$1"
  [[ -z $is_new ]] || there mount --bind "etc-$1" "/etc/$1"
}

there() { nsenter --target "$mounts" --mount --net --wd="$PWD" -- "$@"; }
# For a server in the background, which is then the job itself, and ends with the test.
serve() { exec nsenter --target "$mounts" --mount --net --wd="$PWD" -- "$@"; }

# Starts a name server at 127.0.0.1, or at these addresses of 127.0.0.0/8.
name_server() {  # [--at <address>,...] <rule>...
  local at=127.0.0.1
  [[ $1 != --at ]] || { at=$2 && shift 2; }
  serve "$DLOCK_SOURCE/tests/faults/fake_name_server" "$at" "$@" >> questions 2>&1 3>&- &
  eventually grep -q "^ready" questions || return
  : > questions
}

# Asserts that a run gets its lock within its budget, by default two seconds.
assert_granted() {  # <store> [<option>...]
  run there dlock run --store "$1" "${@:2}" job -- echo granted
  [[ "$status $output" == '0 granted' ]] || { echo "$*: $status $output" >&2; return 1; }
}

# Asserts that it does not wait for most of a budget of 16 seconds.
assert_granted_soon() {  # <store>
  local started=${EPOCHREALTIME/[.,]/} took
  assert_granted "$1" --ttl 200s --store-timeout 16s
  took=$(((${EPOCHREALTIME/[.,]/} - started) / 1000))
  ((took < 8000)) || { echo "$1: took $took ms of 16000" >&2; return 1; }
}

# Asserts the same with so small a budget that a busy machine may need several attempts.
assert_granted_in_haste() {  # <budget> <store>
  while_it_fails_with 69 there dlock run --store "$2" --store-timeout "$1" job -- true
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

@test "an address of one family is used soon, whatever the answer for the other family is" {
  local answer
  local -a rules=()
  for answer in silence nodata nxdomain servfail refused; do
    rules+=("$answer.test/AAAA=$answer" "$answer.test/A=127.0.0.1"
      "$answer-4.test/A=$answer" "$answer-4.test/AAAA=::1")
  done
  name_server "${rules[@]}" 'cut.test/AAAA=nodata' 'cut.test/A=cut:127.0.0.1' \
    'late.test/A=127.0.0.9' 'late.test/AAAA=700:::1' \
    'last.test/AAAA=silence' 'last.test/A=1700:127.0.0.1' \
    'none.test/AAAA=silence' 'none.test/A=127.0.0.9'

  for answer in silence nodata nxdomain servfail refused; do
    assert_granted_soon "redis://$answer.test"
    assert_granted_soon "redis://$answer-4.test"
  done
  assert_granted redis://silence.test --wait 10s
  assert_granted_in_haste 400ms redis://silence.test
  # What fits into a datagram, if no longer answer can be had.
  assert_granted_soon redis://cut.test
  # After the address of the other family has failed.
  assert_granted_soon redis://late.test
  # At the end of the budget, which leaves time for a lock.
  assert_granted_in_haste 2s redis://last.test
  run there dlock run --store redis://none.test --store-timeout 1s job -- true
  assert_status 69
  assert_output_contains 'cannot reach none.test:6379: connection refused'
}

@test "name servers and search domains that are silent, or lack the name, are passed over, but not where a name may exist" {
  name_server '*.silent.test/*=silence' '*/AAAA=nodata' 'db.test/A=127.0.0.1' 'db.other.test/A=127.0.0.1'

  etc resolv.conf $'nameserver 127.0.0.1\nsearch silent.test\noptions ndots:5'
  assert_granted_soon redis://db.test
  etc resolv.conf $'nameserver 127.0.0.1\nsearch none.test other.test'
  assert_granted_soon redis://db
  etc resolv.conf $'nameserver 127.0.0.1\nsearch silent.test other.test'
  run there dlock run --store redis://db --store-timeout 1s job -- true
  assert_status 69
  assert_output_contains 'the name server of db:6379 did not reply within'

  name_server --at 127.0.0.2,127.0.0.3 '*/*=silence'
  etc resolv.conf $'nameserver 127.0.0.2\nnameserver 127.0.0.3\nnameserver 127.0.0.1'
  assert_granted_soon redis://db.test
  assert_granted_in_haste 500ms redis://db.test
}

@test "addresses without a route and those that drop packets are passed over" {
  name_server 'no-route.test/AAAA=2001:db8::1' 'no-route.test/A=127.0.0.1' \
    'dropped.test/AAAA=fd00:211::2' 'dropped.test/A=127.0.0.1' \
    'several.test/AAAA=nodata' \
    'several.test/A=10.211.0.2,10.211.0.3,10.211.0.4,10.211.0.5,10.211.0.6,127.0.0.1'
  black_hole 10.211.0.{2..6} fd00:211::2

  assert_granted_soon redis://no-route.test
  assert_granted_soon redis://dropped.test
  assert_granted_soon redis://several.test
  assert_granted_in_haste 600ms redis://dropped.test
  assert_granted_in_haste 500ms redis://several.test
}

@test "a name in the file of hosts has only the addresses given there, and localhost needs neither that file nor name servers" {
  etc hosts $'127.0.0.1 four.test\n::1 six.test'
  name_server '*/*=silence'
  assert_granted_soon redis://four.test
  assert_granted_soon redis://six.test
  assert_equal "$(< questions)" ''

  etc hosts ''
  for text in '' 'nameserver 127.0.0.7'; do
    etc resolv.conf "$text"
    assert_granted_soon redis://localhost
  done
}

@test "names without name servers are a failure that says so at once" {
  local empty=$BATS_TEST_TMPDIR/missing
  mkdir "$empty"
  there mount --bind "$empty" /etc

  run there dlock run --store redis://db.test job -- true

  assert_message 69 'cannot reach db.test:6379: cannot resolve the name'
}

@test "the other servers of a quorum, Sentinel and etcd are used if the name of one is silent" {
  name_server 'silent.test/*=silence' 'db.test/AAAA=silence' 'db.test/A=127.0.0.1'
  local i
  for i in 1 2; do
    serve redis-server --port "700$i" --bind 127.0.0.1 --save '' > /dev/null 3>&- &
    eventually there redis-cli -p "700$i" PING
  done
  export DLOCK_MAX_TTL=0
  assert_granted redis+quorum://silent.test,db.test:7001,db.test:7002 --quiet
  assert_granted redis+quorum://db.test:7001,db.test:7002,silent.test --quiet

  for i in 1 2; do
    printf '%s\n' "port 800$i" 'sentinel monitor main 127.0.0.1 6379 1' > "sentinel-$i.conf"
    serve redis-server "sentinel-$i.conf" --sentinel > /dev/null 3>&- &
    eventually there redis-cli -p "800$i" PING
  done
  assert_granted redis+sentinel://silent.test,db.test:8001,db.test:8002/main

  serve env -u DLOCK_TEST_ID etcd --data-dir "$PWD/etcd" --listen-client-urls http://127.0.0.1:2379 \
    --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
    --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster default=http://127.0.0.1:2380 \
    --log-level error > etcd.log 2>&1 3>&- &
  etcd_pids=($!)
  eventually there etcdctl get x
  assert_granted etcd://silent.test,db.test
}
