#!/usr/bin/env bats
# The command is dead before its lease ends, whatever happens to the server, the network,
# dlock, or its guardian.
# shellcheck disable=SC2034,SC2086  # what the helpers and the tests set for each other

setup() {
  load ../bats/support
  load redis
  load tree
  use_redis_store
}

clean_up() {
  [[ -z ${delegated:-} ]] || { kill_leftovers; rmdir "$delegated"/*/* "$delegated"/* "$delegated" 2> /dev/null || true; }
}

# On a busy machine, the server may not reply in time at first.
lease=(--ttl 6s --store-timeout 1500ms --wait 60s)

# Waits for a renewal, so that none comes between the inspection of the lease and the fault.
begin_fault() {
  await_renewal job
  end=$(lease_end job)
}

assert_report() {  # <outcome> <reason> <exit code>
  assert_equal "$(jq -r '"\(.outcome) \(.reason) \(.exit_code)"' "$report")" "$1 $2 $3"
}

# Asserts that the tree is dead before the lease ends, and that the run was lost.
assert_dead_in_time() {
  await_death
  ((spare > 0))
  assert_exits 76 "$holder"
  assert_report lost unconfirmed null
}

is_gone() { (($(left_of job) == -2)); }

# --- The server, the network ---

@test "when the server is killed, all of the tree is dead before the lease ends" {
  hold_tree "${lease[@]}"
  begin_fault

  stop_redis

  assert_dead_in_time
}

@test "a run whose guardian is stopped, and is killed because the command outlives it, is lost, and says no exit code" {
  hold_tree "${lease[@]}" --verbose
  kill -STOP "$guardian"

  stop_redis

  assert_exits 76 "$holder"
  grep -q '^dlock: job: ran for .*; the command was stopped$' "$said"
}

# --- dlock is killed or stopped ---

@test "when dlock is killed, all of the tree is dead within seconds, and the lock stays taken until its lease ends" {
  hold_tree --ttl 30s --wait 60s
  end=$(($(now_ms) + 4000))

  kill -KILL "$holder"

  branches+=("$guardian")
  await_death
  ((spare > 0))
  eventually no_leftovers
  run dlock run job -- true
  assert_status 75
  assert_between "$(left_of job)" 1 30000
}

@test "when dlock is killed, its command gets TERM first" {
  dlock run job -- sh -c 'trap "echo told > \"\$0\"; exit" TERM; echo on > "$0"; sleep 60 & wait' "$began" 2> "$said" 3>&- &
  holder=$!
  eventually test -s "$began"

  kill -KILL "$holder"

  eventually grep -qx told "$began"
}

@test "when dlock is stopped for longer than its lease, the tree is dead before it ends" {
  hold_tree "${lease[@]}"
  begin_fault

  kill -STOP "$holder"

  await_death
  ((spare > 0))
  eventually is_gone
  stopped=$holder
  hold job
  kill -CONT "$stopped"
  assert_exits 76 "$stopped"
  assert_report lost unconfirmed null
  # It leaves the lock of the next holder alone.
  is_held job
  let_go
  assert_exits 0 "$holder"
}

@test "when everything of a run is stopped for longer than its lease, little is done after" {
  dlock run "${lease[@]}" --report "$report" job -- perl -MTime::HiRes=sleep -e '
    $| = 1; open my $out, ">", shift; select $out; $| = 1;
    while (1) { print "\n"; sleep 0.002 }' "$began" 2> "$said" 3>&- &
  holder=$!
  eventually test -s "$began"
  guardian=$(guardian_of "$holder")
  command=$(pgrep -P "$guardian")
  kill -STOP "$command" "$guardian" "$holder"
  eventually is_gone

  before=$(wc -l < "$began")
  kill -CONT "$command" "$guardian" "$holder"

  assert_exits 76 "$holder"
  # On a busy machine the command also gets less done in that time.
  assert_between $(($(wc -l < "$began") - before)) 0 125
}

# --- The guardian is killed or stopped ---

@test "when the guardian is killed, the tree is dead within seconds and the lock released" {
  hold_tree --ttl 30s --wait 60s
  end=$(($(now_ms) + 4000))

  kill -KILL "$guardian"

  await_death
  ((spare > 0))
  assert_exits 70 "$holder"
  is_gone
  assert_report error null 70
  output=$(< "$said")
  assert_one_line
  assert_output_contains 'the guardian process was killed'
}

@test "when the guardian is stopped, signals do not hold up dlock, and the tree is dead in time" {
  hold_tree "${lease[@]}"
  kill -STOP "$guardian"
  begin_fault
  kill -USR1 "$holder"

  redis_freezes

  assert_dead_in_time
}

@test "a run continues while its guardian is stopped, and signals to the guardian alone change nothing" {
  hold job "${lease[@]}"
  guardian=$(guardian_of "$holder")
  for signal in HUP INT QUIT TERM USR1 USR2 ALRM PIPE TSTP TTIN TTOU CHLD STOP; do
    kill -s "$signal" "$guardian"
  done

  await_renewal job
  await_renewal job
  kill -CONT "$guardian"
  never_within 300 has_ended "$holder"
  let_go

  assert_exits 0 "$holder"
}

@test "no pattern for dlock matches its guardian, so the command is dead in time if all that match are stopped" {
  hold job "${lease[@]}"
  guardian=$(guardian_of "$holder")
  for how in '' -f; do
    pgrep $how dlock > "$BATS_TEST_TMPDIR/matching"
    grep -qx "$holder" "$BATS_TEST_TMPDIR/matching"
    if grep -qx "$guardian" "$BATS_TEST_TMPDIR/matching"; then return 1; fi
    pgrep $how lock-guardian | grep -qx "$guardian"
  done
  kill -STOP "$holder"
  eventually has_ended "$command"
  kill -CONT "$holder"
  assert_exits 76 "$holder"
}

@test "when dlock and the guardian are killed at once, the command itself is dead" {
  hold_tree --ttl 30s --wait 60s

  kill -KILL "$guardian" "$holder"

  eventually has_ended "${branches[0]}"
}

@test "a waiter whose guardian or command was killed before the start says so, and hands the lock off" {
  local told waiters=()
  hold job
  for _ in 1 2 3; do
    told=$said.${#waiters[@]}
    dlock run --wait 60s job -- touch "$began" 2> "$told" 3>&- &
    waiters+=($!)
    eventually is_queued job $!
  done
  guardian=$(guardian_of "${waiters[0]}")
  kill -KILL "$guardian" "$(pgrep -P "$(guardian_of "${waiters[1]}")")"
  # If dlock is killed while it waits, nothing is left of it.
  local of_killed prepared
  of_killed=$(guardian_of "${waiters[2]}")
  prepared=$(pgrep -P "$of_killed")
  kill -KILL "${waiters[2]}"
  # Only the end of its guardian kills the process that becomes the command.
  eventually all_have_ended "$guardian" "$of_killed" "$prepared"

  let_go

  assert_exits 125 "${waiters[0]}"
  assert_exits 125 "${waiters[1]}"
  grep -q 'cannot start the command: its process was killed before the start' "$said.1"
  [[ ! -e $began ]]
  eventually is_gone
}

# --- What cannot be killed ---

@test "a process that cannot be killed keeps the lock while it lives" {
  needs_root
  choose_redis_port
  stop_redis
  start_redis --port "$redis_port"
  use_private_mounts
  inside cp "$DLOCK_BIN" "$(command -v setpriv)" "$redis_root/password" /mnt
  inside chmod 4755 /mnt/setpriv
  inside chown 1001 /mnt/password
  inside setpriv --reuid 1001 --regid 1001 --clear-groups env HOME=/mnt \
    DLOCK_STORE="redis://127.0.0.1:$redis_port" DLOCK_PASSWORD_FILE=/mnt/password \
    /mnt/dlock run --ttl 3s --store-timeout 300ms --wait 60s --timeout 2s --kill-after 100ms job -- \
    /mnt/setpriv --reuid 0 --regid 0 --clear-groups sh -c 'echo $$ > "$0"; exec sleep 60' \
    "$began" 2> "$said" 3>&- &
  holder=$!
  eventually test -s "$began"
  stuck=$(< "$began")
  eventually grep -q 'cannot kill 1 of' "$said"

  await_renewal job
  await_renewal job
  never_within 1 has_ended "$holder"
  assert_equal "$(wc -l < "$said")" 1
  kill -KILL "$stuck"

  assert_exits 124 "$holder"
  is_gone
}

# --- A separate control group ---

# Makes a cgroup that is delegated as by systemd, and sets $delegated to its path.
use_delegated_cgroup() {
  needs_root
  local root
  root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
  delegated=$root/dlock-test-$$-$BATS_TEST_NUMBER
  if [[ -z $root ]] || ! mkdir "$delegated" 2> /dev/null; then skip 'no cgroups can be made here'; fi
  setfattr -n trusted.delegate -v 1 "$delegated"
  into_delegated=(sh -c 'echo $$ > "$0/cgroup.procs"; exec "$@"' "$delegated")
}

remove_delegated_cgroup() {
  [[ -z ${delegated:-} ]] || rmdir "$delegated"
}

@test "in its own cgroup, processes that do not descend from the command are killed with it" {
  use_delegated_cgroup
  sleep 300 3>&- &
  stranger=$!
  "${into_delegated[@]}" dlock run "${lease[@]}" job -- sh -c '
    for group in "$2"/dlock-*; do echo "$1" > "$group/cgroup.procs"; done
    echo on > "$0"; exec sleep 60' \
    "$began" "$stranger" "$delegated" 2> "$said" 3>&- &
  holder=$!
  eventually test -s "$began"

  redis_freezes

  eventually has_ended "$stranger"
  assert_exits 76 "$holder"
  remove_delegated_cgroup
}

@test "in its own cgroup no process of the command is left when dlock or the guardian is killed" {
  use_delegated_cgroup
  "${into_delegated[@]}" dlock run job -- true
  for victim in dlock guardian; do
    rm -f "$began"
    "${into_delegated[@]}" dlock run "${lease[@]}" job -- sh -c 'echo on > "$0"; exec sleep 60' "$began" 3>&- &
    holder=$!
    eventually test -s "$began"
    guardian=$(guardian_of "$holder")
    eventually test -d "$delegated/dlock-$guardian"

    if [[ $victim == dlock ]]; then
      kill -KILL "$holder"
      eventually has_ended "$guardian"
    else
      kill -KILL "$guardian"
      assert_exits 70 "$holder"
    fi
    eventually has_no_cgroup_inside
  done
  remove_delegated_cgroup
}

has_no_cgroup_inside() { ! compgen -G "$delegated/dlock-*" > /dev/null; }

# Runs a command where dlock cannot make a cgroup.
without_cgroups() {  # <command>...
  needs_root
  unshare --mount --propagation private sh -c 'mount -t tmpfs none /sys/fs/cgroup; exec "$@"' - "$@"
}

@test "where no cgroup can be made the command stays in the caller's" {
  without_cgroups dlock run job -- sh -c 'cat /proc/self/cgroup' > "$began"

  run cat /proc/self/cgroup

  assert_equal "$(< "$began")" "$output"
}

# Prints the cgroup (version 2) of a process.
cgroup_of() { sed -n 's/^0:://p' "/proc/$1/cgroup"; }  # <pid>

@test "stragglers move back to the caller's cgroup, and the command's is removed" {
  use_delegated_cgroup
  "${into_delegated[@]}" dlock run job -- sh -c 'sleep 60 3>&- > /dev/null 2>&1 & echo $! > "$0"' "$began"

  assert_equal "$(cgroup_of "$(< "$began")")" "/${delegated##*/}"
  [[ -z $(find "$delegated" -mindepth 1 -type d) ]]
  end_processes "$(< "$began")"
  eventually remove_delegated_cgroup
}

@test "on an embedded store a time limit comes with a cgroup that is removed, and nothing else does" {
  use_delegated_cgroup
  DLOCK_STORE=local:$BATS_TEST_TMPDIR/embedded
  "${into_delegated[@]}" dlock run --timeout 60s job -- sh -c 'sed -n s/^0:://p /proc/self/cgroup' > "$began"
  "${into_delegated[@]}" dlock run job -- sh -c 'sed -n s/^0:://p /proc/self/cgroup' > "$said"

  [[ $(< "$began") == "/${delegated##*/}/dlock-"* ]]
  assert_equal "$(< "$said")" "/${delegated##*/}"
  remove_delegated_cgroup
}

@test "on an embedded store, the next run removes the cgroup of a killed one, but none of a living process" {
  use_delegated_cgroup
  DLOCK_STORE=local:$BATS_TEST_TMPDIR/embedded
  "${into_delegated[@]}" dlock run --timeout 60s job -- sh -c 'echo $$ > "$0"; exec sleep 60' "$began" 3>&- &
  holder=$!
  eventually test -s "$began"
  kill -KILL "$holder"
  assert_exits 137 "$holder"
  kill -KILL "$(< "$began")"
  eventually has_ended "$(< "$began")"
  mkdir "$delegated/dlock-$holder/dlock-$holder" # as of a run in the command
  mkdir "$delegated/dlock-$$"

  "${into_delegated[@]}" dlock run --timeout 60s job -- true

  [[ ! -e $delegated/dlock-$holder ]]
  rmdir "$delegated/dlock-$$"
  remove_delegated_cgroup
}

# --- Resources ---

@test "the guardian passes nothing that belongs to itself to the command" {
  local without
  without=$(sh -c 'cd /proc/$$/fd; echo *')

  run dlock run job -- sh -c 'cd /proc/$$/fd; echo *'

  assert_equal "$output" "$without"
}

@test "three hundred short processes leave the guardian no zombie, descriptor or memory" {
  dlock run job -- sh -c 'echo 1 > "$0"; until [ -e "$0.go" ]; do sleep 0.05; done
    i=0; while [ $i -lt 300 ]; do (true &); i=$((i + 1)); done
    echo 2 > "$0"; until [ -e "$0.end" ]; do sleep 0.05; done' "$began" 3>&- &
  holder=$!
  eventually test -s "$began"
  guardian=$(guardian_of "$holder")
  descriptors=$(descriptors_of "$guardian")
  memory=$(memory_of "$guardian")

  touch "$began.go"
  eventually grep -qx 2 "$began"

  eventually has_no_zombies "$guardian"
  assert_equal "$(descriptors_of "$guardian")" "$descriptors"
  assert_between "$(memory_of "$guardian")" 0 $((memory + 32))
  touch "$began.end"
  assert_exits 0 "$holder"
}

# Prints the number of descriptors of a process, and its private dirty memory in KiB.
descriptors_of() { echo /proc/"$1"/fd/* | wc -w; }  # <pid>
memory_of() { awk '/^Private_Dirty/ { print $2 }' "/proc/$1/smaps_rollup"; }  # <pid>

has_no_zombies() { [[ $(ps -o stat= --ppid "$1") != *Z* ]]; }

# --- The terminal ---

@test "Ctrl-Z for longer than the lease ends the run with 76, and fg says so" {
  cd "$BATS_TEST_TMPDIR"
  mkfifo keys
  SHELL=/bin/sh TERM=dumb env --default-signal script -qec \
    'PS1="ready> " exec bash --norc --noprofile -i' /dev/null <> keys > screen 3>&- &
  eventually grep -qF 'ready> ' screen
  echo "dlock run ${lease[*]}"' job -- sh -c "echo \$\$ > began; exec sleep 60"' 1<> keys
  eventually test -s began
  begin_fault
  branches=("$(< began)")

  printf '\032' 1<> keys
  await_death
  ((spare > 0))
  eventually is_gone
  echo 'fg; echo "it was $?"' 1<> keys

  eventually grep -q 'it was 76' screen
  grep -q 'lost the lock: its lease was not renewed in time' screen
}
