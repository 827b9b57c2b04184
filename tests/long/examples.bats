#!/usr/bin/env bats
# The examples, as the tools that they are for take them: Ansible and Prometheus.

setup() {
  load ../bats/support
  load ../bats/metrics
  use_private_store
  examples=$DLOCK_SOURCE/examples
  here=$BATS_TEST_TMPDIR
}

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
  hold deploy --label 'the nightly deploy'
  sed -i 's/10m/0/' "$here/play.yml"
  run ansible-playbook -i web1, -c local -e "lock_store=$DLOCK_STORE" "$here/play.yml"
  assert_status 2
  assert_output_contains 'the nightly deploy'
  [[ ! -e $here/calls ]]
}

@test "promtool accepts the alerts and the metrics" {
  dlock run job -- true
  hold job
  promtool check rules "$examples/alerts.yml"

  run dlock list --prometheus

  assert_metrics
}

# Runs the entrypoint as process 1 of a container, whose signals a TERM at one system call of this process
# joins. Sets $status, to 124 if the container has not ended.
entrypoint() {  # [<call> <number>]
  mkfifo "$here/gate"
  env -C "$here/bin" timeout -s KILL 20 unshare --pid --fork --kill-child --mount-proc \
    sh -c 'read -r _ < "$1" && exec sh "$2" ./serve' - "$here/gate" "$examples/entrypoint.sh" \
    > "$here/said" 2>&1 3>&- &
  local outside=$! first tracer
  rm -f "$here/bin/"{serves,migrated}
  eventually has_child "$outside"
  first=$(pgrep -P "$(pgrep -P "$outside")")
  strace -qq -p "$first" -o "$here/trace" ${1:+-e "inject=$1:signal=TERM:when=$2"} 3>&- &
  tracer=$!
  eventually grep -q '^TracerPid:[[:space:]]*[1-9]' "/proc/$first/status"
  echo > "$here/gate"
  status=0
  eventually ended_or_serves "$outside" || return
  has_ended "$outside" || kill -KILL "$first"
  wait "$outside" || status=$?
  wait "$tracer"
  rm -f "$here/gate"
}

has_child() { pgrep -P "$(pgrep -P "$1")"; }
ended_or_serves() { has_ended "$1" || [[ -e $here/bin/serves ]]; }

@test "the entrypoint loses no TERM of the platform, whenever it comes" {
  local calls call number
  mkdir -p "$here/bin"
  printf '#!/bin/sh\nsleep 0.05\necho ended > migrated\n' > "$here/bin/migrate"
  printf '#!/bin/sh\necho > serves\nexec sleep 60\n' > "$here/bin/serve"
  chmod +x "$here/bin"/*
  entrypoint
  [[ -e $here/bin/serves ]]
  # From the first trap or child to the last call before the service.
  calls=$(awk -F '[(]' '/^clone|^rt_sigaction\(SIGTERM, \{sa_handler=0x/ { begun = 1 } /^execve\("\.\/serve".* = 0$/ { exit }
    /^[a-z0-9_]+\(/ { ++seen[$1]; if (begun) print $1, seen[$1] }' "$here/trace")
  (($(wc -l <<< "$calls") > 4))

  while read -r call number; do
    entrypoint "$call" "$number"
    grep -q SIGTERM "$here/trace" || continue # it takes fewer calls this time
    [[ ! -e $here/bin/serves ]] || { echo "lost at $call number $number" >&2; return 1; }
    [[ $status == 143 ]] || { echo "exit code $status at $call number $number" >&2; return 1; }
    [[ $(dlock status migrate --json | jq -r .state) == free ]]
  done <<< "$calls"
}
