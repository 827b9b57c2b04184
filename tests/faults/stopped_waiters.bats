#!/usr/bin/env bats
# Waiters that are alive and do not respond: how long they delay the waiter behind them.

setup() {
  load ../bats/support
  use_private_store
  released=$BATS_TEST_TMPDIR/released
  stopped=()
}

clean_up() { [[ -z ${frozen:-} ]] || thaw; }

timing=(bash -c 'clock_into "$1"' -)

# Starts this many waiters for the lock `job` and stops them. Their commands write their
# positions.
queue_stopped() {  # <number>
  local i
  for ((i = 1; i <= $1; i++)); do
    queue job -- "${noting[@]}" "$order" "$i"
    stopped+=("$waiter")
  done
  kill -STOP "${stopped[@]}"
  for i in "${stopped[@]}"; do eventually is_stopped "$i"; done
}

is_stopped() { grep -q '^State:.T' "/proc/$1/status"; }

ran() { [[ -e $order ]] && (($(wc -l < "$order") >= $1)); }

# Asserts how long after the release the waiter behind them started.
assert_took() {  # <least> <most>
  eventually test -s "$began"
  echo "took $(ms_between "$released" "$began") ms"
  assert_between "$(ms_between "$released" "$began")" "$1" "$2"
}

# As many that the next waiter would begin after 45 s if each kept its promise for 3 s.
many=15
assert_took_no_promise() { assert_took 0 30000; }

release_behind_stopped() {  # <number>
  hold job
  queue_stopped "$1"
  queue job -- "${timing[@]}" "$began"
  clock_into "$released"
  let_go
}

@test "stopped waiters are passed over without a promise to each" {
  release_behind_stopped "$many"
  assert_took_no_promise
}

@test "stopped waiters that continue get the lock in the order in which they came" {
  release_behind_stopped 4
  eventually test -s "$began"

  hold job
  kill -CONT "${stopped[@]}"
  for pid in "${stopped[@]}"; do eventually is_back "$pid"; done
  let_go

  eventually ran 4
  assert_equal "$(tr -d '\n' < "$order")" 1234
}

# Whether it runs again, has asked for its place, and sleeps.
is_back() {
  local before
  ! is_stopped "$1" || return
  before=$(sleeps "$1")
  sleep 0.1
  [[ $(sleeps "$1") == "$before" ]]
}

# Prints how often a process went to sleep.
sleeps() { awk '/^voluntary_ctxt_switches/ { print $2 }' "/proc/$1/status"; }

# A frozen cgroup: no process in it shows that it cannot run.
freeze_waiters() {  # <number>
  needs_root
  local i root
  root=$(cgroup_root) || skip 'no cgroup v2 that can be written'
  frozen=$root/dlock-test-$$-$BATS_TEST_NUMBER
  mkdir "$frozen" || skip 'no cgroup can be made'
  [[ -e $frozen/cgroup.freeze ]] || { rmdir "$frozen"; skip 'cgroups cannot be frozen'; }
  for ((i = 1; i <= $1; i++)); do
    queue job -- true
    echo "$waiter" > "$frozen/cgroup.procs"
  done
  echo 1 > "$frozen/cgroup.freeze"
  eventually grep -q '^frozen 1' "$frozen/cgroup.events"
}

thaw() {
  xargs -r kill -KILL < "$frozen/cgroup.procs" || true
  echo 0 > "$frozen/cgroup.freeze" || true
  eventually rmdir "$frozen" || true
}

cgroup_root() {
  local type
  for root in /sys/fs/cgroup /sys/fs/cgroup/unified; do
    type=$(stat -fc %T "$root" 2> /dev/null) || continue
    [[ $type == cgroup2fs && -w $root/cgroup.procs ]] && { echo "$root"; return; }
  done
  return 1
}

@test "four frozen waiters cost the next one a promise of 3 seconds each" {
  hold job
  freeze_waiters 4
  queue job -- "${timing[@]}" "$began"

  clock_into "$released"
  let_go

  assert_took 2500 60000
}
