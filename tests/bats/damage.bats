#!/usr/bin/env bats
# The embedded store when its disk is full, and when its files are not what they were.
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter
# shellcheck disable=SC2030,SC2031  # tests are subshells and set things for themselves

setup() {
  load support
  load ../faults/locks
  use_private_store
  store=$BATS_TEST_TMPDIR/store
  began=$BATS_TEST_TMPDIR/began
  saved=$BATS_TEST_TMPDIR/saved
}

teardown() { kill_leftovers; }

# --- A full disk ---

# Puts the store on a file system of its own.
use_small_disk() {  # <mount options>
  use_private_mounts
  inside mount -t tmpfs -o "mode=755,$1" none /mnt
  export DLOCK_STORE=local:/mnt/store
  store=$(from_outside /mnt/store)
}

# What is free now goes to a file that has nothing to do with dlock.
fill_disk() { inside sh -c 'cat /dev/zero > /mnt/full' 2> /dev/null || true; }

# No file can be made any more.
# shellcheck disable=SC2016
use_up_inodes() {
  inside bash -c 'n=0; while true > "/mnt/file-$((++n))"; do :; done' 2> /dev/null || true
}

# `hold` and `queue` with that store.
holds() {
  inside dlock run job -- sh -c "until [ -e '$began' ]; do sleep 0.01; done" 3>&- &
  holder=$!
  eventually inside dlock status job
}

queues() {
  inside dlock run -w 30s job -- "$@" 3>&- &
  waiter=$!
  eventually has_waiter
}

has_waiter() { inside dlock status --json job | grep -q '"waiters":\[{'; }

@test "a lock is not granted on a full disk without a store, which is said in one line" {
  use_small_disk size=1m
  fill_disk

  run inside dlock run job -- echo started

  assert_status 69
  assert_one_line
}

@test "a lock is not granted when the disk is too small for a database" {
  use_small_disk size=200k

  run inside dlock run job -- echo started

  assert_status 69
  assert_one_line
}

@test "an attempt on a disk that is too small leaves no draft behind" {
  use_small_disk size=200k
  inside dlock run job -- true || true

  assert_equal "$(find "$store" -name '*.new')" ''
}

# Takes away the room that the database has set aside for this case.
use_up_room() {
  truncate -s 100000 "$store"/state-*
  fill_disk
}

@test "a lock is not granted on a full disk when the room set aside is used up" {
  use_small_disk size=3m
  inside dlock run job -- true
  use_up_room

  run inside dlock run job -- echo started

  assert_status 69
  assert_one_line
}

@test "a lock is given back on a full disk out of the room that was set aside" {
  use_small_disk size=3m
  holds
  use_up_room

  touch "$began"

  assert_exits 0 "$holder"
  run inside dlock status --json job
  assert_equal "$(json '"\(.state) \(.last_run.outcome)"')" 'free ran'
}

@test "a lock that is held when the disk becomes full is given back" {
  use_small_disk size=4m
  holds
  fill_disk

  touch "$began"

  assert_exits 0 "$holder"
  run inside dlock status job
  assert_status 1
}

@test "a lock that is held when the disk becomes full passes to who waits for it" {
  use_small_disk size=4m
  holds
  queues touch "$began.next"
  fill_disk

  touch "$began"

  assert_exits 0 "$waiter"
  [[ -e $began.next ]]
}

@test "a lock that is held stays held on a full disk" {
  use_small_disk size=4m
  holds
  fill_disk

  run inside dlock run job -- echo started

  assert_status 75
}

@test "where no file can be made, a lock is refused in one line" {
  use_small_disk nr_inodes=20
  use_up_inodes

  run inside dlock run job -- echo started

  assert_status 69
  assert_one_line
}

@test "a lock that is held when no file can be made any more is given back" {
  use_small_disk nr_inodes=20
  holds
  use_up_inodes

  touch "$began"

  assert_exits 0 "$holder"
  run inside dlock status job
  assert_status 1
}

@test "a lock that is held when no file can be made any more passes to who waits for it" {
  use_small_disk nr_inodes=20
  holds
  queues touch "$began.next"
  use_up_inodes

  touch "$began"

  assert_exits 0 "$waiter"
}

@test "the last run is known though its log could not be written" {
  use_small_disk size=4m
  inside dlock run job -- true
  inside rm /mnt/store/runs.jsonl
  fill_disk

  inside dlock run job -- sh -c 'exit 3' || true

  run inside dlock status --json job
  assert_equal "$(json .last_run.exit_code)" 3
}

# --- A database that is not what it was ---

# Takes a lock, and keeps the database as it is then.
hold_and_save() {
  dlock run another -- true
  hold job
  eventually grep -qs "\"pid\":$holder," "$store/runs.jsonl"
  database=$(find "$store" -name 'state-*')
  cp "$database" "$saved"
}

# Asserts that nobody gets a lock from the damaged database, which is named and left as
# it is, and repairs it.
assert_unusable() {  # <what was done to it>
  local sum
  sum=$(md5sum < "$database")
  run timeout 10 dlock run job -- echo started
  if [[ $status != 78 || $output == *$'\n'* ]] ||
    [[ $output != 'dlock: '*"$database"* ]]; then
    printf 'after %s: exit code %s, said: %s\n' "$1" "$status" "$output" >&2
    return 1
  fi
  assert_equal "$(md5sum < "$database")" "$sum"
  cat "$saved" > "$database"
}

@test "a database that was cut is named and left alone, and grants nothing" {
  hold_and_save

  for size in 0 1 151 152 4095 4096 4097 8191 8192 8193 12288 16384 20480; do
    truncate -s "$size" "$database"
    assert_unusable "a cut to $size bytes"
  done
}

@test "a database that was cut behind its last page in use still excludes" {
  hold_and_save
  truncate -s -4096 "$database"

  run dlock run job -- echo started

  assert_status 75
}

@test "a database of zeros is named and left alone, and grants nothing" {
  hold_and_save
  head -c "$(stat -c %s "$saved")" /dev/zero > "$database"

  assert_unusable 'zeros'
}

@test "a database of random bytes is named and left alone, and grants nothing" {
  hold_and_save
  head -c "$(stat -c %s "$saved")" /dev/urandom > "$database"

  assert_unusable 'random bytes'
}

@test "a database with zeros behind its first two pages is named and left alone" {
  hold_and_save
  dd if=/dev/zero of="$database" bs=4096 seek=2 count=100 conv=notrunc status=none

  assert_unusable 'zeros behind the first two pages'
}

@test "a database with random bytes behind its first two pages is named and left alone" {
  hold_and_save

  for _ in 1 2 3 4 5 6; do
    dd if=/dev/urandom of="$database" bs=4096 seek=2 count=30 conv=notrunc status=none
    assert_unusable 'random bytes behind the first two pages'
  done
}

@test "another file in the place of the database is named and left alone" {
  hold_and_save
  cat "$DLOCK_SOURCE/tests/bats/damage.bats" > "$database"

  assert_unusable 'a text'
}

@test "a database of another format is named and left alone" {
  hold_and_save
  sed -i 's/dlock0[0-9]/dlock99/g' "$database"

  assert_unusable 'another format'
}

@test "a flipped bit never lets anybody into a held lock" {
  hold_and_save

  "$DLOCK_SOURCE/tests/faults/flip_bits" "$database" 3 \
    timeout 10 dlock run job -- echo started > "$BATS_TEST_TMPDIR/flips"

  (($(wc -l < "$BATS_TEST_TMPDIR/flips") > 100))
  assert_equal "$(grep started "$BATS_TEST_TMPDIR/flips")" ''
}

@test "a flipped bit does not matter, or is told in one line with the database's name" {
  hold_and_save

  "$DLOCK_SOURCE/tests/faults/flip_bits" "$database" 3 \
    timeout 10 dlock run job -- echo started > "$BATS_TEST_TMPDIR/flips"

  (($(grep -c ' 78 kept dlock: .*/state-' "$BATS_TEST_TMPDIR/flips") > 20))
  assert_equal "$(grep -v -e ' 78 kept dlock: .*/state-[^ ]*mdb ' \
    -e ' 75 [a-z]* dlock: job: held by' "$BATS_TEST_TMPDIR/flips")" ''
}

@test "status says in one line which database is damaged" {
  hold_and_save
  truncate -s 8192 "$database"

  run timeout 10 dlock status job

  assert_status 78
  assert_one_line
  assert_output_contains "$database"
}

@test "list says in one line which database is damaged" {
  hold_and_save
  truncate -s 8192 "$database"

  run timeout 10 dlock list

  assert_status 78
  assert_one_line
  assert_output_contains "$database"
}

@test "a database that is cut under a waiter ends it with 78 and one line" {
  hold_and_save
  dlock run -w 30s job -- echo started > "$began" 2>&1 3>&- &
  waiter=$!
  eventually is_queued job "$waiter"
  truncate -s 0 "$database"

  kill -KILL "$holder" "$command"

  assert_exits 78 "$waiter"
  output=$(< "$began")
  assert_one_line
  assert_output_contains "$database"
}

@test "a database that is cut while it is being read is told in one line, with 78" {
  dlock run job -- true
  database=$(find "$store" -name 'state-*')
  export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
  # Stopped right after the database was mapped.
  strace -o "$BATS_TEST_TMPDIR/strace.log" -P "$database" -e trace=mmap \
    -e inject=mmap:signal=STOP:when=1 dlock status job > "$began" 2>&1 3>&- &
  strace=$!
  eventually is_stopped

  truncate -s 0 "$database"
  kill -CONT "$(pgrep -P "$strace")"

  assert_exits 78 "$strace"
  output=$(< "$began")
  assert_one_line
  assert_output_contains "$database"
}

# Not by its state: under strace it is stopped for a moment at every system call.
is_stopped() { grep -q '^--- stopped by SIGSTOP' "$BATS_TEST_TMPDIR/strace.log"; }

@test "a command whose database is cut lives on" {
  hold_and_save
  truncate -s 0 "$database"

  never_within 300 has_ended "$command"
}

@test "a log that is not one does not matter" {
  dlock run job -- true
  head -c 100000 /dev/urandom > "$store/runs.jsonl"

  run dlock run job -- echo started

  assert_equal "$status $output" '0 started'
}

@test "a log that lost its last line feed does not swallow the next line" {
  dlock run job -- true
  printf '{"event":"st' >> "$store/runs.jsonl"

  dlock run job -- true

  assert_equal "$(tail -n 1 "$store/runs.jsonl" | jq -r .event)" end
}

@test "the log of runs stays below 10 MB" {
  long=$(printf 'long%.0s' {1..60})
  dlock run "$long" -- true
  line=$(tail -n 1 "$store/runs.jsonl")
  # As many more, of other locks.
  yes "$line" | head -n 20000 | awk '{ sub(/long/, "long" NR); print }' \
    >> "$store/runs.jsonl"
  (($(stat -c %s "$store/runs.jsonl") > 9000000))

  dlock run job -- sh -c 'exit 3' || true

  (($(stat -c %s "$store/runs.jsonl") < 9000000))
  assert_equal "$(tail -n 1 "$store/runs.jsonl" | jq -r .exit_code)" 3
}
