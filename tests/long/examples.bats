#!/usr/bin/env bats
# The examples, as the tools that they are for take them: Ansible and Prometheus.
# shellcheck disable=SC2016  # shells in commands

setup() {
  load ../bats/support
  load ../bats/metrics
  load ../faults/locks
  use_private_store
  examples=$DLOCK_SOURCE/examples
  here=$BATS_TEST_TMPDIR
}

teardown() { kill_leftovers; }

# Runs the playbook on two hosts that are this machine, with a command that records who holds the lock.
play() {  # <exit code of the command>
  printf '#!/bin/sh\necho "$1 $(dlock status deploy --json | jq -r .state)" >> %s\nexit %s\n' "$here/calls" "$1" > "$here/deploy"
  chmod +x "$here/deploy"
  sed "s|/usr/local/bin/deploy|$here/deploy|" "$examples/ansible.yml" > "$here/play.yml"
  ansible-playbook -i web1,web2, -c local -e "lock_store=$DLOCK_STORE" "$here/play.yml"
}

@test "Ansible accepts the playbook, and runs its tasks under the lock on all hosts" {
  ansible-playbook --syntax-check "$examples/ansible.yml"

  play 0

  assert_equal "$(sort "$here/calls")" $'web1 held\nweb2 held'
  [[ $(dlock status deploy --json | jq -r .state) == free ]]
}

@test "a play that fails releases the lock, and one that does not get it does nothing" {
  run play 1
  assert_status 2
  [[ $(dlock status deploy --json | jq -r .state) == free ]]

  rm "$here/calls"
  hold deploy
  sed -i 's/10m/0/' "$here/play.yml"
  run ansible-playbook -i web1, -c local -e "lock_store=$DLOCK_STORE" "$here/play.yml"
  assert_status 2
  [[ ! -e $here/calls ]]
}

@test "promtool accepts the alerts and the metrics" {
  dlock run job -- true
  hold job
  promtool check rules "$examples/alerts.yml"

  run dlock list --prometheus

  assert_metrics
}
