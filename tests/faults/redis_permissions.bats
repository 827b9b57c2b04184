#!/usr/bin/env bats
# A user without one of the permissions that dlock needs is refused (77), and the keys that a
# script wrote before it was refused expire by themselves.
# shellcheck disable=SC2034  # permissions.bash uses preparation

setup() {
  load ../bats/support
  load redis
  load permissions
  use_redis_store
}

@test "with a missing permission on an empty server, no key stays there forever" {
  open_console
  preparation=(FLUSHALL)

  for permission in $(permissions); do call_all_without "$permission"; done
}
