#!/usr/bin/env bats
# The local store on a full disk, and with damaged files.
# shellcheck disable=SC2086  # words

setup() {
  load support
  use_private_store
  store=$BATS_TEST_TMPDIR/store
  saved=$BATS_TEST_TMPDIR/saved
}

# --- A full disk ---

# Puts the store on its own file system.
use_small_disk() {  # <mount options>
  [[ -n ${mounts:-} ]] || use_private_mounts
  inside mount -t tmpfs -o "mode=755,$1" none /mnt
  disk=$(from_outside /mnt)
  store=$disk/store
  export DLOCK_STORE=local:$store
}

# Fills the disk with a file that is not dlock's.
fill_disk() { ! head -c 8M /dev/zero > "$disk/full" 2> /dev/null; }

# Creates files until no inodes are left.
use_up_inodes() {
  local n=0
  while : > "$disk/file-$n"; do ((++n < 1000)) || return; done 2> /dev/null
}

@test "a run exits with 69 and one line on a disk that is full or too small for the files, and leaves no temporary file" {
  for disk_is in 'full size=1m' 'full nr_inodes=20' 'small size=4k' 'small size=8k'; do
    echo "$disk_is"
    use_small_disk "${disk_is#* }"
    case $disk_is in
      'full size'*) fill_disk ;;
      'full nr'*) use_up_inodes ;;
    esac

    run dlock run job -- echo started

    assert_message 69
    assert_equal "$(find "$store" -name '*.new')" ''
  done
}

@test "on a disk that became full, or without inodes, used locks are granted, held ones stay held, are handed off and released, and new ones leave no files" {
  for disk_is in 'fill_disk size=1m' 'use_up_inodes nr_inodes=40'; do
    echo "$disk_is"
    use_small_disk "${disk_is#* }"
    dlock run used -- true
    dlock fence disk 10
    token=$(dlock acquire hand)
    hold released
    first=$holder
    hold job
    queue job -- touch "$began"
    ${disk_is% *}
    before=$(find "$store" | sort)

    run dlock run another -- echo started
    assert_message 69
    assert_equal "$(find "$store" | sort)" "$before"
    run dlock run used -- echo started
    assert_equal "$status $output" '0 started'
    run dlock run job -- echo started
    assert_status 75
    assert_equal "$(dlock renew hand --token "$token" -t 50s)" 50s
    dlock release hand --token "$token"
    run dlock fence disk 11
    assert_message 69
    run dlock fence disk 9
    assert_status 76
    dlock fence disk 10
    let_go "$first"
    assert_exits 0 "$first"
    run dlock status released
    assert_status 1
    let_go

    assert_exits 0 "$waiter"
    [[ -e $began ]]
    rm "$began"
  done
}

# Starts waiters that are deduplicated if the run that they wait for succeeds.
queue_deduplicated_waiters() {  # <number>
  for ((i = 0; i < $1; ++i)); do
    dlock run -w 60s --dedupe 1h --retry-failed job -- echo ran >> "$saved" 2>&1 3>&- &
    waiters+=("$!")
  done
  eventually has_waiters "$1"
}

has_waiters() {  # <number>
  local waiters
  waiters=$(dlock status --json job)
  waiters=${waiters#*'"waiters":['}
  waiters=${waiters%%]*}
  waiters=${waiters//[!\{]/}
  ((${#waiters} == $1))
}

@test "a lock is released and its waiters are deduplicated whether they queue before or after the disk is full" {
  for order in 'queue_deduplicated_waiters fill_disk' 'fill_disk queue_deduplicated_waiters'; do
    echo "$order"
    use_small_disk size=4m
    waiters=()
    dlock run job -- false || true
    hold job

    # The outcome needs more room in the file than the queue does.
    ${order% *} 40
    ${order#* } 40
    let_go

    assert_exits 0 "$holder"
    for waiter in "${waiters[@]}"; do assert_exits 0 "$waiter"; done
    assert_equal "$(but_for_wait "$saved")" ''
    run dlock status --json job
    assert_equal "$(json '"\(.state) \(.last_run.outcome) \(.waiters)"')" 'free ran []'
  done
}

# --- Damaged files ---

# Prints the file of a lock.
file_of() {  # <name>
  grep -laF "$1" "$store"/state-*/*.lock
}

# Holds a lock, and saves a copy of its file.
hold_and_save() {
  hold_until_stored job
  file=$(file_of job)
  cp "$file" "$saved"
}

# Asserts that the lock of the damaged file is not granted, and that the message names the
# file and dlock does not change it. Then repairs the file.
assert_unusable() {  # <description of the damage>
  cp "$file" "$saved.damaged"
  run dlock --store-timeout 200ms run job -- echo started
  if [[ $status != 78 || $output == *$'\n'* ]] ||
    [[ $output != "dlock: "*"$file is "*'move it away once no command runs'* ]]; then
    printf 'after %s: exit code %s, said: %s\n' "$1" "$status" "$output" >&2
    return 1
  fi
  cmp "$file" "$saved.damaged"
  cat "$saved" > "$file"
}

@test "a lock file with any damage grants nothing, is named and is left unchanged" {
  hold_and_save
  dlock run another -- true

  for size in 0 1 47 48 4095 4096 8191; do
    truncate -s "$size" "$file"
    assert_unusable "truncation to $size bytes"
    assert_output_contains truncated
  done
  for size in 8193 12288 33554432; do
    truncate -s "$size" "$file"
    assert_unusable "extension to $size bytes"
  done
  for from in /dev/zero /dev/urandom; do
    head -c 8192 "$from" > "$file"
    assert_unusable "$from"
    { head -c 48 "$saved"; head -c 8144 "$from"; } > "$file"
    assert_unusable "$from behind the head"
  done
  head -c 8192 "$DLOCK_SOURCE/tests/bats/damage.bats" > "$file"
  assert_unusable 'a text'
  cat "$(file_of another)" > "$file"
  assert_unusable "another lock's file"
  sed 's/dlock0[0-9]/dlock99/' "$saved" > "$file"
  assert_unusable 'another format'
}

@test "a grown lock file that is truncated to its first size is named and left unchanged" {
  label=$(printf 'x%.0s' {1..250})
  for ((i = 0; i < 16; ++i)); do dlock acquire --slots 20 --ttl 1h --label "$label" job > /dev/null; done
  file=$(file_of job)
  (($(stat -c %s "$file") > 8192))
  cp "$file" "$saved"

  truncate -s 8192 "$file"

  assert_unusable 'truncation to 8192 bytes'
}

@test "of several locks, one with a damaged file does not hide the others from status and break" {
  hold_and_save
  truncate -s 0 "$file"
  hold_until_stored another

  for names in 'job another' 'another job'; do
    run_apart dlock status --json $names
    assert_equal "$status $(jq -r '.[].name' <<< "$output")" '78 another'
    assert_equal "${#stderr_lines[@]}" 1
    [[ $stderr == 'dlock: job: '* ]]
  done
  run dlock status another free
  assert_status 0
  run dlock run third -- echo started
  assert_equal "$status $output" '0 started'
  run_apart dlock break --yes --json job another 'anot*'
  assert_equal "$status $(jq -r '.[].name' <<< "$output")" '78 another'
  [[ $stderr == 'dlock: job: '* ]]
  run_apart dlock status --json job job
  assert_equal "$status $(jq -r .error.code <<< "$output")" '78 78'
}

@test "a damaged or missing head of the state is written anew, no fence goes back, and one of another format is named" {
  dlock run job -- true
  head=$(echo "$store"/state-*/head)
  fence=0
  for damage in 'truncate -s 0' 'truncate -s 100' 'truncate -s 8193' rm; do
    dlock run "job $damage" -- sh -c 'echo $DLOCK_FENCE' > "$saved"
    (($(< "$saved") > fence))
    fence=$(< "$saved")
    $damage "$head"

    run dlock doctor
    assert_status 0
    assert_output_contains "$head is "
    run timeout 60 dlock run "another $damage" -- echo started
    assert_equal "$status $output" '0 started'
    run dlock doctor
    [[ $output =~ 'ok '\ *'state' ]]
  done
  sed -i 's/dlock0[0-9]/dlock99/' "$head"
  run timeout 60 dlock run another -- echo started
  assert_message 78 "$head is "
}

# --- Missing and damaged files heal ---

# The files of a store that was used with a lock `job`, relative to it.
files_of_store() { (cd "$store" && find . -mindepth 1 ! -name '*.sock' -printf '%P\n'); }

use_everything() {
  dlock run job -- true
  dlock limit api 100/1ms
  dlock fence resource 7
  dlock cache key -- echo value > /dev/null
}

# Removes or truncates each file and folder of the store, one after another, and runs commands
# each time.
@test "whatever single file or folder is removed or truncated while a lock is free, it heals" {
  local file damage
  use_everything
  cp -a "$store" "$saved"
  for file in $(files_of_store); do
    for damage in 'rm -rf' 'truncate -s 0' 'truncate -s 100'; do
      [[ $damage == rm* || -f $saved/$file ]] || continue
      rm -rf "$store"
      cp -a "$saved" "$store"
      $damage "${store:?}/$file"

      # One that was used, the one of a cached value, and a new one.
      run dlock --store-timeout 9s run --also cache:key: --also another job -- echo started
      [[ "$status $output" == '0 started' ]] || { echo "$damage $file: $status $output" >&2; return 1; }
      dlock cache key -- echo value > /dev/null
      # A limit counts again after its period; registers are not guessed.
      eventually dlock limit api 100/1ms
      if [[ $file == fences && $damage != rm* ]]; then
        run dlock fence resource 8
        assert_status 78
        assert_output_contains "$store/fences is damaged"
        rm "$store/fences"
      fi
      dlock fence resource 8
      dlock doctor > /dev/null || { echo "$damage $file" >&2; return 1; }
    done
  done
}

# The same while a lock is held: the two commands must not run at once. Takes its own directory
# for the store and what the commands write.
damage_while_held() {  # <directory> <file> <damage>
  local store=$1/store began=$1/began
  export DLOCK_STORE=local:$store BATS_TEST_TMPDIR=$1
  dlock run job -- true
  hold job 2> /dev/null
  $3 "${store:?}/$2"

  timeout 60 dlock --store-timeout 15s run -w 15s job -- \
    sh -c "! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' /proc/$command/status || touch '$began.both'" \
    2> /dev/null || true
  let_go
  eventually has_ended "$holder"
  wait "$holder" || true
  [[ ! -e $began.both ]] || { echo "$3 $2: two ran" >&2; return 1; }

  run timeout 60 dlock run job -- echo started
  [[ "$status $output" == '0 started' ]] || { echo "$3 $2: $status $output" >&2; return 1; }
}

@test "whatever single file or folder is removed or truncated while a lock is held, there are never two holders, and it heals" {
  local file damage case cases=()
  dlock run job -- true
  for file in $(files_of_store); do
    for damage in 'rm -rf' 'truncate -s 0'; do
      [[ $damage == rm* || -f $store/$file ]] || continue
      mkdir -m 700 "$BATS_TEST_TMPDIR/case-${#cases[@]}"
      # All at once, because some wait until the lock may be used again.
      damage_while_held "$BATS_TEST_TMPDIR/case-${#cases[@]}" "$file" "$damage" 3>&- &
      cases+=("$!")
    done
  done

  ((${#cases[@]} > 5))
  for case in "${cases[@]}"; do wait "$case"; done
}

@test "a lock whose file was removed while its run continues is not granted, however short the run is" {
  hold job
  # The command does not end when its lock is lost, and neither does its dlock.
  kill -STOP "$holder"
  rm "$store"/state-*/*.lock

  run dlock --store-timeout 500ms run job -- echo started

  assert_message 69 'was removed while processes use the lock'
  run dlock run another -- echo started
  assert_equal "$status $output" '0 started'
  kill -KILL "$holder" "$command"
  while_it_fails_with 75 dlock run job -- true
}

@test "many that begin at once with a lock whose file is missing all get their turn" {
  dlock run job -- true
  rm "$store"/state-*/*.lock

  for _ in {1..16}; do dlock run -w 30s job -- sh -c "echo >> '$saved'" 3>&- & done

  wait
  assert_equal "$(wc -l < "$saved")" 16
}

@test "a damaged lock file is not replaced while a lease of acquire may be in it" {
  token=$(dlock acquire -t 1h job)
  file=$(file_of job)
  cp "$file" "$saved"
  truncate -s 0 "$file"

  run dlock run job -- echo started
  assert_status 78
  cat "$saved" > "$file"
  dlock release --token "$token" job
  truncate -s 0 "$file"
  run dlock run job -- echo started
  assert_equal "$status $output" '0 started'
}

# --- Cleaners of temporary directories ---

is_fresh() { (($(date +%s) - $(stat -c %Y "$1") < 3600)); }

@test "a run makes the files of a store that is in use look used" {
  use_everything
  find "$store" -exec touch -h -d '11 days ago' {} +

  dlock run job -- true

  for file in "$store"/{sessions,runs.jsonl,fences,state-*/head}; do
    is_fresh "$file" || { echo "$file is old" >&2; return 1; }
  done
  is_fresh "$(file_of job)"
}

@test "a lock that is held for days keeps its files looking used" {
  hold_until_stored job
  # After its first second it watches its file.
  never_within 1500 has_ended "$holder"

  find "$store" -exec touch -h -d '11 days ago' {} +

  eventually is_fresh "$(file_of job)"
  eventually is_fresh "$store/sessions"
  is_held job
}

@test "a damaged limit file lets no one through and is named" {
  dlock limit api 5/1h
  file=$(echo "$store"/state-*/*.limit)

  for damage in 'truncate -s 0' 'truncate -s 8191' 'sed -i s/dlock0[0-9]/dlock99/'; do
    cp "$file" "$saved"
    $damage "$file"
    run timeout 60 dlock limit api 5/1h
    assert_message 78 "$file is "
    cp "$saved" "$file"
  done
}

# The file of a held lock still contains the previous state of the lock, which was free.
# tests/contract flips more bits of it.
@test "status never shows the previous state of a held lock after a bit is flipped" {
  dlock run job -- true
  dlock acquire --ttl 1h job
  file=$(file_of job)

  "$DLOCK_SOURCE/tests/faults/flip_bits" "$file" 9 \
    sh -c 'dlock status --json job; dlock run job -- echo granted' > "$saved"

  (($(wc -l < "$saved") > 40))
  assert_equal "$(grep granted "$saved")" ''
  (($(grep -c " 78 kept dlock: job: $file is damaged.* dlock: job: $file is damaged" "$saved") > 20))
  assert_equal "$(grep -v -e " 78 kept dlock: job: $file is damaged.* dlock: job: $file is damaged" \
    -e ' 75 [a-z]* {.*"state":"held".* dlock: job: held by' "$saved")" ''
}

# Damages the file of the lock `job`; `another` is readable.
damage_one_of_two() {
  dlock run another -- true
  dlock run job -- true
  file=$(file_of job)
  truncate -s 4096 "$file"
}

@test "list and history show the other locks, warn of a damaged file and exit with 78" {
  damage_one_of_two

  for look in list 'list --json' 'list --prometheus' history 'history --json' 'history --quiet'; do
    status=0
    timeout 60 dlock $look > "$saved" 2> "$began" || status=$?
    output=$(< "$began")
    assert_message 78 "dlock: warning: $file is truncated"
    output=$(< "$saved")
    assert_output_contains another
    # One document, which is the array.
    [[ $look != *--json ]] || assert_equal "$(jq -r '.[].name' "$saved")" another
    [[ $look != *--prometheus ]] || assert_output_contains 'dlock_incomplete{namespace="dlock"} 1'
  done
}

hears_of() {  # <name>
  dlock run "$1" -- true
  grep -q "$1" "$saved"
}

warnings() { grep -c "dlock: warning: $file is truncated" "$began"; }

@test "watch and list --live warn once of a damaged file, and show the other locks" {
  damage_one_of_two

  for look in 'watch --json' 'list --live'; do
    dlock $look > "$saved" 2> "$began" 3>&- &
    eventually hears_of third
    eventually hears_of fourth

    assert_equal "$(warnings)" 1
    assert_equal "$(wc -l < "$began")" 1
    kill -TERM $!
    assert_exits 143 $!
  done
}

@test "a waiter gets the lock after its file is truncated, but not while another run has it" {
  hold_and_save
  dlock run -w 30s job -- echo started > "$began" 2>&1 3>&- &
  waiter=$!
  eventually is_queued job "$waiter"
  truncate -s 0 "$file"

  kill -KILL "$holder" "$command"

  assert_exits 0 "$waiter"
  assert_equal "$(but_for_wait "$began")" started
}

@test "status exits with 78 and one line if the lock file is truncated during the read" {
  dlock run job -- true
  file=$(file_of job)
  export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
  # dlock is stopped once it knows the size of the file.
  strace -o "$BATS_TEST_TMPDIR/strace.log" -P "$file" -e trace=fstat,newfstatat \
    -e inject=fstat,newfstatat:signal=STOP:when=1 dlock status job > "$began" 2>&1 3>&- &
  strace=$!
  eventually is_stopped

  truncate -s 0 "$file"
  kill -CONT "$(pgrep -P "$strace")"

  assert_exits 78 "$strace"
  output=$(< "$began")
  assert_one_line
  assert_output_contains "$file is truncated"
}

# The state of the process cannot tell: under strace, it stops at every system call.
is_stopped() { grep -q '^--- stopped by SIGSTOP' "$BATS_TEST_TMPDIR/strace.log"; }

@test "a command continues and ends as usual after its lock file is truncated" {
  hold_and_save 2> "$began"
  truncate -s 0 "$file"

  never_within 300 has_ended "$command"
  let_go

  assert_exits 0 "$holder"
  output=$(< "$began")
  assert_one_line
  assert_output_contains "$file is truncated"
}

@test "the log of runs stays below 10 MB" {
  long=$(printf 'long%.0s' {1..60})
  dlock run "$long" -- true
  line=$(tail -n 1 "$store/runs.jsonl")
  # 20,000 copies of it, each for a different lock.
  yes "$line" | head -n 20000 | awk '{ sub(/long/, "long" NR); print }' \
    >> "$store/runs.jsonl"
  (($(stat -c %s "$store/runs.jsonl") > 9000000))

  dlock run job -- sh -c 'exit 3' || true

  (($(stat -c %s "$store/runs.jsonl") < 9000000))
  assert_equal "$(tail -n 1 "$store/runs.jsonl" | jq -r .exit_code)" 3
}
