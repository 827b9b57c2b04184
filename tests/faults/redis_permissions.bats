#!/usr/bin/env bats
# A user without one of the permissions that dlock needs is refused (77), and the keys that a
# script wrote before it was refused expire by themselves.

setup() {
  load ../bats/support
  load locks
  load redis
  load permissions
  use_redis_store
}

teardown() {
  stop_redis
  kill_leftovers
}

empty_server() { redis FLUSHALL > /dev/null; }

@test "with a missing permission on an empty server, no key stays there forever" {
  for permission in $(permissions); do call_all_without "$permission" empty_server; done
}
