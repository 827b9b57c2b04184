#!/usr/bin/env bats
# Containers that share a directory but not the boot id or the clocks that its state depends
# on, as with systemd-nspawn and LXC, or with time_namespaces(7).

setup() {
  load ../bats/support
  use_private_store
  store=${DLOCK_STORE#local:}
  over=$BATS_TEST_TMPDIR/over
  log=$BATS_TEST_TMPDIR/strace.log
}

# After this, `inside` runs a command as in a container with another boot id.
use_other_boot_id() {
  use_private_mounts
  echo 11111111-2222-3333-4444-555555555555 > "$BATS_TEST_TMPDIR/boot_id"
  inside mount --bind "$BATS_TEST_TMPDIR/boot_id" /proc/sys/kernel/random/boot_id
}

# Runs a command whose CLOCK_BOOTTIME is two hours ahead.
with_other_clock() { unshare --time --boottime 7200 "$@"; }

assert_refused() {
  assert_message 78 "$store is in use under another boot id or in another time namespace"
}

@test "a lock that is held under another boot id is not granted, and its run continues" {
  hold job
  use_other_boot_id

  run inside dlock run job -- echo started
  assert_refused
  run inside dlock run another -- echo started
  assert_refused

  is_held job
  let_go
  assert_exits 0 "$holder"
  assert_equal "$(look job .last_run.exit_code)" 0
}

# Starts a claim of a lock under the other clock, and stops or kills it at the Nth system call
# of a kind. Only such a claim finds no folder of its clock and creates one.
stop_under_other_clock() {  # <signal> <system call> <N> <command>...
  # LeakSanitizer does not work under strace.
  export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
  rm -f "$log"
  strace -f -o "$log" -e "trace=?$2" -e "inject=?$2:signal=$1:when=$3" \
    unshare --time --boottime 7200 dlock run job -- "${@:4}" > /dev/null 2>&1 3>&- &
  claim=$!
  eventually grep -q "^[0-9]* *\(--- stopped by SIG$1\|+++ killed by SIG$1\)" "$log"
}

continue_stopped() { kill -CONT "$(sed -n 's/^\([0-9]*\) *--- stopped by SIGSTOP.*/\1/p' "$log")"; }

is_at_the_gate_or_started() { [[ -e $began ]] || grep -qs '^ticks: ' "/proc/$1"/fdinfo/*; }

one_is_over_or_both_run() {
  has_ended "$own" || has_ended "$claim" || [[ $(< "$began") == $'run\nrun' ]]
}

@test "while another clock takes over the directory, a lock is granted under one of the clocks" {
  needs_root
  dlock run job -- true
  stay=(sh -c 'echo run >> "$1"; until [ -e "$2" ]; do sleep 0.05; done' - "$began" "$over")
  # It has found no session, and creates its folder.
  stop_under_other_clock STOP mkdirat 1 "${stay[@]}"
  dlock --store-timeout 15s run job -- "${stay[@]}" 3>&- &
  own=$!
  eventually is_at_the_gate_or_started "$own"

  continue_stopped

  eventually test -s "$began"
  eventually one_is_over_or_both_run
  assert_equal "$(< "$began")" run
  touch "$over"
  statuses=''
  for pid in "$claim" "$own"; do
    eventually has_ended "$pid"
    status=0
    wait "$pid" || status=$?
    statuses+="$status "
  done
  [[ $statuses == @('0 78 '|'78 0 ') ]]
}

@test "a process that is killed while it takes over the directory leaves one state, and no fence goes back" {
  needs_root
  local call
  fence=0
  for call in mkdirat:1 unlinkat:{1,3} renameat:{1,2} unlinkat:{5,6}; do
    dlock run job -- sh -c 'echo "$DLOCK_FENCE" > "$1"' - "$began"
    (($(< "$began") > fence))
    fence=$(< "$began")
    stop_under_other_clock KILL "${call%:*}" "${call#*:}" true
    assert_exits 137 "$claim"

    hold job
    run with_other_clock dlock run job -- echo started
    assert_refused
    let_go
    assert_exits 0 "$holder"
    run with_other_clock dlock run job -- sh -c 'echo "$DLOCK_FENCE"'
    assert_status 0
    ((output > fence))
    fence=$output
  done
}

# Puts the store into the lower layer of an overlay file system, as if it had been used while an
# image was built. `store` is its path inside.
use_image() {  # <whether the upper layer is on its own file system>
  inside sh -c 'cd /mnt && mkdir low own root'
  [[ $1 == same ]] || inside mount -t tmpfs none /mnt/own
  inside sh -c 'cd /mnt && mkdir own/up own/work'
  inside dlock --store local:/mnt/low/store run job -- sh -c 'exit 3' || true
  inside dlock --store local:/mnt/low/store limit api 5/1ms
  inside dlock --store local:/mnt/low/store fence resource 7
  inside dlock --store local:/mnt/low/store cache key -- echo value
}

use_layers() {
  inside mount -t overlay overlay -o lowerdir=/mnt/low,upperdir=/mnt/own/up,workdir=/mnt/own/work /mnt/root
  export DLOCK_STORE=local:/mnt/root/store
}

# Every verb works there, as does waiting for a lock.
assert_works_on_layers() {
  local waiter
  run inside dlock run job -- echo ran
  assert_equal "$status $output" '0 ran'
  run inside dlock run another -- echo ran
  assert_equal "$status $output" '0 ran'
  inside dlock limit api 5/1ms
  run inside dlock fence resource 6
  assert_status 76
  assert_equal "$(inside dlock cache key -- echo value)" value
  assert_equal "$(inside dlock status --json job | jq .last_run.exit_code)" 0

  inside dlock run job -- sh -c 'touch "$1"; until [ -e "$2" ]; do sleep 0.05; done' - "$began" "$over" 3>&- &
  holder=$!
  eventually test -e "$began"
  run inside dlock run job -- echo started
  assert_status 75
  inside dlock run -w 30s job -- true 3>&- &
  waiter=$!
  eventually has_waiter_inside
  touch "$over"
  assert_exits 0 "$holder"
  assert_exits 0 "$waiter"

  run inside dlock doctor
  assert_status 0
}

has_waiter_inside() { [[ $(inside dlock status --json job) == *'"waiters":[{'* ]]; }

@test "a store from this boot or another one in a lower layer of an overlay file system is used" {
  local upper boot
  use_private_mounts
  for boot in this other; do
    for upper in same other; do
      rm -f "$began" "$over"
      use_image "$upper"
      [[ $boot == this ]] ||
        inside sh -c 'mv /mnt/low/store/state-* /mnt/low/store/state-11111111-2222-3333-4444-555555555555'
      use_layers

      assert_works_on_layers

      [[ $boot == this ]] || assert_equal "$(inside sh -c 'ls -d /mnt/root/store/state-* | wc -l')" 1
      inside umount /mnt/root
      [[ $upper == same ]] || inside umount /mnt/own
      inside rm -rf /mnt/low /mnt/own /mnt/root
    done
  done
}

@test "a store in a lower layer is used while its first users are reading it" {
  use_private_mounts
  use_image other
  use_layers
  # It opens the files before they are copied to the upper layer.
  inside dlock watch --json > "$log" 3>&- &
  watcher=$!
  inside dlock list > /dev/null

  inside dlock run job -- sh -c 'touch "$1"; until [ -e "$2" ]; do sleep 0.05; done' - "$began" "$over" 3>&- &
  holder=$!
  eventually test -e "$began"
  run inside dlock run job -- echo started
  assert_status 75
  touch "$over"
  assert_exits 0 "$holder"
  kill -TERM "$watcher"
}

@test "without sockets in the file system a waiter still gets the lock" {
  hold job
  strace -f -o "$log" -e trace=bind -e inject=bind:error=EOPNOTSUPP \
    dlock run -w 30s job -- touch "$began" > /dev/null 2>&1 3>&- &
  eventually somebody_waits job

  let_go

  eventually test -e "$began"
}

@test "where a directory cannot be synced, fences are admitted" {
  run strace -o "$log" -e trace=fsync -e inject=fsync:error=EINVAL:when=2+ dlock fence resource 7

  assert_status 0
}

@test "without locks of open files, dlock says so in one line and names a way out" {
  run strace -o "$log" -e trace=fcntl -e inject=fcntl:error=EINVAL:when=3+ dlock run job -- echo started

  assert_message 78 F_OFD_SETLK 'or a server'
}

@test "a lease is not granted again under a clock that runs ahead" {
  dlock acquire -t 1h job

  run with_other_clock dlock acquire job

  assert_refused
}

@test "a limit does not admit more under a clock that runs ahead" {
  dlock limit api 1/1h

  run with_other_clock dlock limit api 1/1h

  assert_refused
}

@test "a limit whose period is over does not block another clock" {
  dlock limit api 1/1ms

  eventually with_other_clock dlock limit api 1/1ms
}
