#!/usr/bin/env bats
# `dlock doctor` on a directory and on none:. Servers are in doctor_redis.bats.

setup() {
  load support
  load ../faults/doctor
  use_private_store
  store=$BATS_TEST_TMPDIR/store
}

# Prints the file of a lock.
file_of() {  # <name>
  grep -laF "$1" "$store"/state-*/*.lock
}

# Asserts that doctor exits with this code and finds this.
assert_doctor_finds() {  # <exit code> <level> <check> <part of the message> [<part of the advice>]
  run timeout 60 dlock doctor
  assert_status "$1" && assert_found "${@:2}"
}

# --- Stores without problems ---

@test "an unused store, and one with holders, waiters, limits, past runs and fences, have no problem, and are not changed" {
  assert_doctor_finds 0 info directory 'does not exist yet' 'nothing to do: the first lock creates it'
  [[ ! -e $store ]]

  hold job
  queue job -- true
  dlock limit api 5/1s
  dlock run other -- false || true
  dlock fence disk 7
  before=$(cd "$store" && find . -printf '%p %s %T@\n' | sort)

  assert_doctor_finds 0 ok directory "$store"
  assert_found ok state 'intact, 2 locks known'
  assert_found ok files 'none left over'
  assert_equal "${lines[-1]}" "no problems found in local:$store"
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

@test "a directory that cannot be used is an error, and what to do is said" {
  while IFS='|' read -r make message advice; do
    rm -rf "$store"
    eval "$make"
    assert_doctor_finds 2 error directory "$message" "$advice" || { echo "after $make" >&2; return 1; }
  done << END
export DLOCK_STORE=local:$store/no/store|does not exist|create it
export DLOCK_STORE=local:$store; mkdir -m 777 $store|everyone can write to it|chmod o-w $store
mkdir -m 3770 $store|cannot be shared|chmod -t $store
touch $store|is not a directory|name the directory itself
END
  [[ ! -e $store/no ]]
  assert_equal "${lines[-1]}" "1 error in local:$store"

  needs_root
  rm "$store"
  mkdir "$store"
  chown 1234 "$store"
  assert_doctor_finds 2 error directory 'belongs to' 'use your own directory'
}

@test "a directory in which this user may not write is an error, and one in memory or whose parents are missing is information" {
  use_private_mounts
  inside install -d -m 755 /mnt/store
  run inside dlock doctor --store local:/mnt/store
  assert_status 0
  assert_found info file-system 'tmpfs, in memory'

  as_user=(inside setpriv --reuid 1234 --clear-groups)
  run "${as_user[@]}" "$DLOCK_BIN" doctor --store local:/mnt/store
  assert_status 2
  assert_found error directory 'cannot write to /mnt/store'
  run "${as_user[@]}" "$DLOCK_BIN" doctor --store local:/mnt/store/new
  assert_status 2
  assert_found error directory '/mnt/store/new does not exist, and cannot be created in /mnt/store' 'create it as a user with permission'
  inside mount --bind -o ro /mnt/store /mnt/store
  run inside dlock doctor --store local:/mnt/store
  assert_status 2
  assert_found error directory 'mounted read-only' 'mount it with permission to write'

  inside chmod 777 /mnt
  run "${as_user[@]}" env XDG_STATE_HOME=/mnt/a/b "$DLOCK_BIN" doctor --store local:
  assert_status 0
  assert_found info directory '/mnt/a/b/dlock does not exist yet'
}

# --- The files ---

@test "a damaged file of a lock, a limit or the registers is an error, and a damaged head is none; each is named" {
  local damage code level check message advice
  dlock run --label unmistakable job -- true
  hold_until_stored job --label unmistakable
  dlock run another -- true
  dlock limit api 77/1s
  dlock fence disk 1234
  cp -a "$store" "$store.saved"
  file=$(file_of job) limit=$(echo "$store"/state-*/*.limit) head=$(echo "$store"/state-*/head)
  # The label is in both halves of the file.
  while IFS='|' read -r damage code level check message advice; do
    eval "$damage"
    assert_doctor_finds "$code" "$level" "$check" "$message" "$advice" || { echo "after $damage" >&2; return 1; }
    cp -a "$store.saved"/{fences,state-*} "$store"
  done << END
truncate -s 4096 $file|2|error|state|$file is truncated|the next run under that lock replaces the file
sed -i s/unmistakable/unmistakeble/g $file|2|error|state|$file is damaged (its checksum does not match)|
cat $(file_of another) > $file|2|error|state|$file is damaged|
sed -i 's/dlock0[0-9]/dlock99/' $file|2|error|state|$file is damaged|
sed -i s/api/apo/g $limit|2|error|state|$limit is damaged (its checksum does not match)|
sed -i s/1234/1235/ $store/fences|2|error|fences|$store/fences is damaged|
truncate -s 10 $head|0|info|state|$head is truncated|
rm $head|0|info|state|$head is missing|
END
}

@test "doctor ends in time and reports the damage after a bit of a lock file is flipped" {
  dlock run job -- true
  hold_until_stored job

  "$DLOCK_SOURCE/tests/faults/flip_bits" "$(file_of job)" 9 \
    timeout 60 dlock doctor > "$BATS_TEST_TMPDIR/flips"

  (($(grep -c " 2 kept ok .* error  *state  *$(file_of job) is damaged" "$BATS_TEST_TMPDIR/flips") > 20))
  assert_equal "$(grep -vE '^[0-9]+ [0-9]+ [02] kept ok ' "$BATS_TEST_TMPDIR/flips")" ''
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

@test "the state of an earlier boot is information if the next run removes it, and otherwise a warning" {
  earlier=$store/state-00000000-1111-2222-3333-444444444444
  dlock run job -- true
  mkdir "$earlier"
  assert_doctor_finds 1 warning files "${earlier##*/}" "remove them from $store"
  assert_equal "${lines[-1]}" "1 warning in local:$store"

  rmdir "$earlier"
  mv "$store"/state-* "$earlier"
  assert_doctor_finds 0 info files "${earlier##*/}" 'nothing'
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

@test "a full disk and one without inodes are errors, and one that is nearly full is a warning" {
  local options fill code level message
  use_private_mounts
  while IFS='|' read -r options fill code level message; do
    inside mount -t tmpfs -o "mode=755,$options" none /mnt
    inside install -d -m 700 /mnt/store
    inside sh -c "$fill" 2> /dev/null || true

    run inside dlock doctor --store local:/mnt/store

    assert_status "$code"
    assert_found "$level" space "$message"
  done << 'END'
size=4m|cat /dev/zero > /mnt/full|2|error|0 KiB free
size=8m|true|1|warning|8 MiB free
nr_inodes=2|true|2|error|no inodes left
nr_inodes=101|true|1|warning|only 99 more files can be created
END
}

# --- Output ---

@test "doctor --json prints one line with the findings, and -q only warnings and errors" {
  dlock run job -- true
  run dlock -q doctor
  assert_equal "$status $output" '0 '
  chmod 777 "$store"

  run dlock -q doctor
  assert_status 2
  assert_equal "${#lines[@]}" 3
  run dlock doctor --json
  assert_status 2
  assert_equal "${#lines[@]}" 1
  assert_equal "$(json 'keys_unsorted | join(" ")')" \
    'store level not_checked findings round_trip_ms smallest_ttl_ms'
  assert_equal "$(json '.findings[0] | keys_unsorted | join(" ")')" 'check level message advice checked'
  assert_equal "$(json '"\(.store) \(.level) \(.findings[0].check) \(.round_trip_ms)"')" \
    "local:$store error directory null"
}

@test "on a terminal, levels have colours, and lines are wrapped at its width" {
  mkdir -m 777 "$store"

  run env TERM=xterm script -qec 'dlock doctor' /dev/null
  assert_output_contains $'\e[31merror\e[0m'

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
