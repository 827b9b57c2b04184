#!/usr/bin/env bats
# With -v a waiter prints a line once a minute, on a terminal or not:
#
#   DLOCK_BIN=build/release/dlock bats tests/long/wait_notice.bats

setup() {
  load ../bats/support
  load ../faults/redis
}

assert_said_thrice() {  # <what>
  assert_equal "$(grep -cE "$1; (2m5s|1m[0-9]+s|[0-9.]+s) left$" <<< "$output")" 3
}

@test "a wait for a lock is announced once a minute" {
  use_private_store
  hold job

  run dlock -v run -w 125s job -- true

  assert_status 75
  assert_said_thrice 'waiting: held by .*; position 1 of 1'
}

@test "a wait for a missing server is announced once a minute" {
  use_redis_store
  stop_redis

  run dlock -v run -w 125s job -- true

  assert_status 69
  assert_said_thrice 'trying again'
}

@test "a wait for a turn is announced once a minute" {
  use_private_store
  dlock limit api 1/124s

  run dlock -v limit -w 125s api 1/124s

  assert_status 0
  assert_said_thrice 'waiting: turn in .*'
}
