#!/usr/bin/env bats
# `dlock doctor` on a directory and on none:. Servers are in doctor_redis.bats.
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter

setup() {
  load support
  load ../faults/doctor
  load ../faults/locks
  use_private_store
  store=$BATS_TEST_TMPDIR/store
}

teardown() { kill_leftovers; }

# Prints the file of a lock.
file_of() {  # <name>
  grep -laF "$1" "$store"/state-*/*.lock
}

# --- Stores without problems ---

@test "a store without problems is reported as such" {
  dlock run job -- true

  run dlock doctor

  assert_status 0
  assert_found ok directory "$store"
  assert_found ok state 'intact, 1 lock known'
  assert_found ok files 'none left over'
  assert_equal "${lines[-1]}" "no problems found in local:$store"
}

@test "holders, waiters, limits, past runs and fences are not problems" {
  hold job
  queue job -- true
  dlock limit api 5/1s
  dlock run other -- false || true
  dlock fence disk 7

  run dlock doctor

  assert_status 0
  assert_found ok state 'intact, 2 locks known'
}

@test "an unused store is not a problem, and is not created" {
  run dlock doctor

  assert_status 0
  assert_found info directory 'does not exist yet' 'nothing to do: the first lock creates it'
  [[ ! -e $store ]]
}

@test "the directory of the default store and its parents may be missing" {
  use_private_mounts
  inside chmod 777 /mnt

  run inside setpriv --reuid 1234 --clear-groups env XDG_STATE_HOME=/mnt/a/b \
    "$DLOCK_BIN" doctor --store local:

  assert_status 0
  assert_found info directory '/mnt/a/b/dlock does not exist yet'
}

@test "doctor does not change a store that has been used" {
  dlock run job -- true
  before=$(cd "$store" && find . -printf '%p %s %T@\n' | sort)

  dlock doctor

  assert_equal "$(cd "$store" && find . -printf '%p %s %T@\n' | sort)" "$before"
}

@test "on none: doctor exits with 0 and says that it excludes no other run" {
  run dlock doctor --store none:

  assert_status 0
  assert_found info store 'excludes no other run'
  run dlock doctor --store none: --json
  assert_equal "$status $(json '"\(.store) \(.level) \(.findings | length)"')" '0 none: ok 1'
}

# --- The directory ---

@test "a directory that cannot be created is an error" {
  run dlock doctor --store "local:$BATS_TEST_TMPDIR/no/store"

  assert_status 2
  assert_found error directory 'does not exist' 'create it'
  [[ ! -e $BATS_TEST_TMPDIR/no ]]
}

@test "a world-writable directory is an error" {
  mkdir -m 777 "$store"

  run dlock doctor

  assert_status 2
  assert_found error directory 'everyone can write to it' "chmod o-w $store"
  assert_equal "${lines[-1]}" "1 error in local:$store"
}

@test "a directory that belongs to another user is an error" {
  needs_root
  mkdir "$store"
  chown 1234 "$store"

  run dlock doctor

  assert_status 2
  assert_found error directory 'belongs to' 'use your own directory'
}

@test "a directory that this user may not write to is an error" {
  use_private_mounts
  inside install -d -m 755 /mnt/store

  run inside setpriv --reuid 1234 --clear-groups "$DLOCK_BIN" doctor --store local:/mnt/store

  assert_status 2
  assert_found error directory 'cannot write to /mnt/store'
  run inside setpriv --reuid 1234 --clear-groups "$DLOCK_BIN" doctor --store local:/mnt/store/new
  assert_status 2
  assert_found error directory '/mnt/store/new does not exist, and cannot be created in /mnt/store' 'create it as a user with permission'
  inside mount --bind -o ro /mnt/store /mnt/store
  run inside dlock doctor --store local:/mnt/store
  assert_status 2
  assert_found error directory 'mounted read-only' 'mount it with permission to write'
}

@test "a symbolic link in the place of the directory is an error" {
  mkdir "$BATS_TEST_TMPDIR/real"
  ln -s real "$store"

  run dlock doctor

  assert_status 2
  assert_found error directory 'is not a directory' 'name the directory itself'
}

@test "a directory in memory is reported, because a reboot clears it" {
  use_private_mounts
  inside install -d -m 700 /mnt/store

  run inside dlock doctor --store local:/mnt/store

  assert_status 0
  assert_found info file-system 'tmpfs, in memory'
}

# --- The files ---

@test "a truncated lock file is an error and is named" {
  dlock run job -- true
  dlock run another -- true
  file=$(file_of job)
  truncate -s 4096 "$file"

  run dlock doctor

  assert_status 2
  assert_found error state "$file is truncated" 'the next run under that lock replaces the file'
}

@test "a lock file that does not match its checksum is an error" {
  dlock run --label unmistakable job -- true
  hold_until_stored job --label unmistakable
  file=$(file_of job)
  sed -i 's/unmistakable/unmistakeble/g' "$file"  # in both halves of it

  run dlock doctor

  assert_status 2
  assert_found error state "$file is damaged (its checksum does not match)"
}

@test "a limit file that does not match its checksum is an error" {
  dlock limit api 77/1s
  file=$(echo "$store"/state-*/*.limit)
  sed -i 's/api/apo/g' "$file"

  run dlock doctor

  assert_status 2
  assert_found error state "$file is damaged (its checksum does not match)"
}

@test "the file of another lock in the place of a lock file is an error" {
  dlock run job -- true
  dlock run another -- true
  file=$(file_of job)
  cat "$(file_of another)" > "$file"

  run dlock doctor

  assert_status 2
  assert_found error state "$file is damaged"
}

@test "a lock file of another format is an error" {
  dlock run job -- true
  file=$(file_of job)
  sed -i 's/dlock0[0-9]/dlock99/' "$file"

  run dlock doctor

  assert_status 2
  assert_found error state "$file is damaged"
}

@test "a truncated or missing head of the state is named, and no problem" {
  dlock run job -- true
  head=$(echo "$store"/state-*/head)
  truncate -s 10 "$head"
  run dlock doctor
  assert_status 0
  assert_found info state "$head is truncated"
  rm "$head"

  run dlock doctor

  assert_status 0
  assert_found info state "$head is missing"
}

@test "doctor ends in time and reports the damage after a bit of a lock file is flipped" {
  dlock run job -- true
  hold_until_stored job

  "$DLOCK_SOURCE/tests/faults/flip_bits" "$(file_of job)" 9 \
    timeout 60 dlock doctor > "$BATS_TEST_TMPDIR/flips"

  (($(grep -c " 2 kept ok .* error  *state  *$(file_of job) is damaged" "$BATS_TEST_TMPDIR/flips") > 20))
  assert_equal "$(grep -vE '^[0-9]+ [0-9]+ [02] kept ok ' "$BATS_TEST_TMPDIR/flips")" ''
}

@test "a shared directory with the sticky bit is an error" {
  mkdir -m 3770 "$store"

  run dlock doctor

  assert_status 2
  assert_found error directory 'cannot be shared' "chmod -t $store"
}

@test "a damaged file of fence registers is an error" {
  dlock fence disk 1234
  sed -i 's/1234/1235/' "$store/fences"

  run dlock doctor

  assert_status 2
  assert_found error fences "$store/fences is damaged"
}

@test "a process that keeps the store busy is named after the store timeout" {
  dlock run job -- true
  perl -e 'use Fcntl; open my $f, "+<", $ARGV[0] or die;
    my $byte = pack "s s x4 q q i x4", F_WRLCK, 0, 0, 1, 0;
    fcntl $f, 37, $byte or die "$!";
    print STDOUT "held\n"; close STDOUT; sleep 600' "$store/sessions" > "$BATS_TEST_TMPDIR/held" 3>&- &
  busy=$!
  eventually grep -q held "$BATS_TEST_TMPDIR/held"

  run timeout 60 dlock doctor --store-timeout 200ms

  assert_status 2
  assert_found error state "kept busy for 200ms by process $busy" 'check what that process waits for'
}

@test "the state of an earlier boot that no run will remove is a warning" {
  dlock run job -- true
  mkdir "$store/state-00000000-1111-2222-3333-444444444444"

  run dlock doctor

  assert_status 1
  assert_found warning files state-00000000-1111-2222-3333-444444444444 "remove them from $store"
  assert_equal "${lines[-1]}" "1 warning in local:$store"
}

@test "the state of an earlier boot that the next run removes is information" {
  dlock run job -- true
  mv "$store"/state-* "$store/state-00000000-1111-2222-3333-444444444444"

  run dlock doctor

  assert_status 0
  assert_found info files state-00000000-1111-2222-3333-444444444444 'nothing'
}

@test "the socket of a killed waiter is reported, but not that of a live one" {
  hold job
  queue job -- true
  run dlock doctor
  assert_found ok files 'none left over'
  kill -KILL "$waiter"
  eventually has_ended "$waiter"

  run dlock doctor

  assert_status 0
  assert_found info files wake- 'nothing to do: the next run removes them'
}

@test "a leftover temporary file is reported once it is old" {
  dlock run job -- true
  touch "$store/runs.jsonl.new"
  run dlock doctor
  assert_found ok files 'none left over'
  touch -d '1 hour ago' "$store/runs.jsonl.new" "$store"/$'\e.new'

  run dlock doctor

  assert_status 0
  assert_found info files runs.jsonl.new
  assert_output_contains '\x1b.new'
}

# --- The disk ---

@test "a full disk is an error" {
  use_private_mounts
  inside mount -t tmpfs -o mode=755,size=4m none /mnt
  inside install -d -m 700 /mnt/store
  inside sh -c 'cat /dev/zero > /mnt/full' 2> /dev/null || true

  run inside dlock doctor --store local:/mnt/store

  assert_status 2
  assert_found error space '0 KiB free' 'free space'
}

@test "a disk that is nearly full is a warning" {
  use_private_mounts
  inside mount -t tmpfs -o mode=755,size=8m none /mnt

  run inside dlock doctor --store local:/mnt/store

  assert_status 1
  assert_found warning space '8 MiB free'
}

@test "a file system without free inodes is an error" {
  use_private_mounts
  inside mount -t tmpfs -o mode=755,nr_inodes=2 none /mnt
  inside install -d -m 700 /mnt/store

  run inside dlock doctor --store local:/mnt/store

  assert_status 2
  assert_found error space 'no inodes left'
}

# --- Output ---

@test "doctor --json prints one line with the findings" {
  mkdir -m 777 "$store"

  run dlock doctor --json

  assert_status 2
  assert_equal "${#lines[@]}" 1
  assert_equal "$(json 'keys_unsorted | join(" ")')" \
    'store level not_checked findings round_trip_ms smallest_ttl_ms'
  assert_equal "$(json '.findings[0] | keys_unsorted | join(" ")')" 'check level message advice checked'
  assert_equal "$(json '"\(.store) \(.level) \(.findings[0].check) \(.round_trip_ms)"')" \
    "local:$store error directory null"
}

@test "-q prints only warnings and errors" {
  dlock run job -- true
  run dlock -q doctor
  assert_equal "$status $output" '0 '
  mkdir "$store/state-00000000-1111-2222-3333-444444444444"

  run dlock -q doctor

  assert_status 1
  assert_equal "${#lines[@]}" 3
}

@test "on a terminal, levels have colours" {
  mkdir -m 777 "$store"

  run env TERM=xterm script -qec 'dlock doctor' /dev/null

  assert_output_contains $'\e[31merror\e[0m'
}

@test "on a terminal, lines are wrapped at its width" {
  mkdir -m 777 "$store"

  run env TERM=xterm NO_COLOR=1 script -qec 'stty cols 70; dlock doctor' /dev/null

  for line in "${lines[@]}"; do
    # The path of the directory cannot be wrapped.
    [[ $line == *"$store"* ]] || ((${#line} <= 71))
  done
  ((${#lines[@]} > 3))
}

@test "an argument of doctor exits with 64, and an invalid URL with 78" {
  run dlock doctor job
  assert_status 64
  run dlock doctor --store nonsense
  assert_status 78
}
