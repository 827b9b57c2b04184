#!/usr/bin/env bats
# `dlock cache` prints the stored output of a command, or runs the command. What depends on how values
# are stored is tested on the local store and on a Redis server (tests/contract/value_test.cpp has
# more of that), the other tests run on the local store.

setup_file() {
  load support
  head -c 10000000 /dev/urandom > "$BATS_FILE_TMPDIR/random"
}

setup() {
  load support
  load ../faults/redis
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  ln -s "$BATS_FILE_TMPDIR/random" random
}

# Sets `stores` to the local one and a server.
use_both_stores() {
  stores=("$DLOCK_STORE")
  # The store of this test stays as it is.
  use_private_store() { :; }
  use_redis_store
  stores+=("$DLOCK_STORE")
}

# For tests on both stores: prints the store, and removes the files of the test on the
# previous one.
begin() {
  echo "on $DLOCK_STORE"
  rm -rf runs said printed go printed-* said-*
}

# A command that records that it ran, and prints something.
noting_run=(sh -c 'echo run >> runs; echo value' -)

# A command that waits for the file `go`, and then evaluates its argument.
lasting=(sh -c 'echo run >> runs; until [ -e go ]; do sleep 0.05; done; eval "$1"' -)

runs() { grep -c . runs 2> /dev/null || true; }
has_run() { [[ $(runs) -ge $1 ]]; }  # <times>

has_waiters() { [[ $(look "cache:$1" '.waiters | length') -eq $2 ]]; }  # <key> <number>

# Starts callers in the background, whose output goes to printed-0, said-0, and so on. Their
# pids are appended to `callers`.
call() {  # <number> <argument of cache>...
  local number=$1 i
  shift
  for ((i = 0; i < number; i++)); do
    dlock cache "$@" > "printed-${#callers[@]}" 2> "said-${#callers[@]}" 3>&- &
    callers+=($!)
  done
}

# --- Stored and not stored ---

@test "a command runs once, and later calls print its stored output" {
  use_both_stores
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    run dlock cache report -- "${noting_run[@]}"
    assert_equal "$status $output" '0 value'

    run dlock cache report -- "${noting_run[@]}"

    assert_equal "$status $output" '0 value'
    assert_equal "$(runs)" 1
  done
}

@test "a failed command's exit code and output are passed on and not stored, and -v says what was" {
  for _ in 1 2; do
    run dlock cache report -- sh -c 'echo run >> runs; echo partial; exit 7'
    assert_equal "$status $output" '7 partial'
  done
  assert_equal "$(runs)" 2
  run dlock cache report -- sh -c 'kill -TERM $$'
  assert_status 143
  status=0
  output=$(dlock cache report -- ./no-such-command 2>&1) || status=$?
  assert_message 127

  run dlock -v cache report -- echo value
  assert_output_contains 'stored 6 bytes'
  run dlock -v cache report -- echo value
  assert_output_contains 'dlock: cache:report: cached, 6 bytes'
}

@test "output of more than --max-size is printed but not stored" {
  for _ in 1 2; do
    dlock cache --max-size 1MiB big -- sh -c 'echo run >> runs; cat random' > printed 2> said
    cmp printed random
    run cat said
    assert_one_line
    assert_output_contains '--max-size'
  done
  assert_equal "$(runs)" 2
  # Output of exactly this size is stored.
  dlock cache --max-size 1000 edge -- head -c 1000 random > printed
  assert_equal "$(dlock cache edge -- echo new | cmp - printed)" ''
}

@test "output that is too large to be stored is forwarded while the command runs" {
  callers=()
  call 1 --max-size 10 report -- sh -c 'echo more than ten bytes; until [ -e go ]; do sleep 0.05; done; echo end'

  eventually grep -qx 'more than ten bytes' printed-0

  : > go
  assert_exits 0 "${callers[0]}"
  assert_equal "$(tail -n 1 printed-0)" end
}

@test "a slow reader gets all forwarded output, and the descriptor's flags do not change" {
  dlock cache --max-size 10 big -- cat random 2> /dev/null | {
    eventually test -e printed || :  # the pipe is full long before
    cat > printed
  } &
  : > printed
  wait "$!"
  cmp printed random
  run sh -c 'dlock cache --max-size 10 big -- seq 9 2> /dev/null; grep flags "/proc/$$/fdinfo/1"'
  refute grep -q '^flags:.*[4567]...$' <<< "$output"
}

@test "a signal reaches a command whose output a slow terminal does not accept" {
  mkfifo keys
  SHELL=/bin/sh TERM=dumb env --default-signal script -qec \
    'exec dlock cache --max-size 10 big -- sh -c "echo \$\$ > pid; until [ -e go ]; do sleep 0.05; done; exec dd if=random bs=4k"' \
    /dev/null <> keys > screen 3>&- &
  eventually test -s pid
  halt $!
  : > go
  eventually has_stalled "$(< pid)"

  kill -TERM "$(pgrep -P $!)"

  eventually has_ended "$(< pid)"
  eventually is_free cache:big
}

# Whether a process that has written more than a pipe holds writes nothing for a while.
has_stalled() { (($(written_by "$1") > 65536)) && writes_nothing "$1"; }  # <pid>

# --- Many callers ---

@test "one of twenty simultaneous callers runs the command, and all print its output" {
  use_both_stores
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    callers=()
    call 20 report -- "${lasting[@]}" 'head -c 300000 random'
    eventually has_waiters report 19
    : > go

    for caller in "${callers[@]}"; do assert_exits 0 "$caller"; done

    assert_equal "$(runs)" 1
    head -c 300000 random > printed
    for i in "${!callers[@]}"; do cmp "printed-$i" printed; done
    assert_equal "$(cat said-*)" ''
  done
}

@test "all waiting callers exit with a failed command's code, or that of its signal, and a later one runs it again" {
  callers=()
  call 1 report -- "${lasting[@]}" 'echo partial; exit 9'
  call 1 killed -- "${lasting[@]}" 'kill -USR1 $$'
  eventually has_run 2
  call 3 report -- "${lasting[@]}" 'exit 1'
  call 1 killed -- true
  eventually has_waiters report 3
  eventually has_waiters killed 1
  : > go

  for i in 0 2 3 4; do assert_exits 9 "${callers[i]}"; done
  for i in 1 5; do assert_exits 138 "${callers[i]}"; done

  assert_equal "$(runs)" 2
  assert_equal "$(cat printed-0)" partial
  for i in 2 3 4; do
    assert_equal "$(cat "printed-$i")" ''
    output=$(< "said-$i")
    assert_one_line
    assert_output_contains 'exit 9'
  done
  assert_equal "$(dlock cache report -- echo new)" new
}

@test "if the caller that runs the command is killed, another one takes over" {
  use_both_stores
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    callers=()
    call 1 report -- "${lasting[@]}" 'echo first'
    eventually has_run 1
    call 3 report -- sh -c 'echo run >> runs; echo second'
    eventually has_waiters report 3

    kill -KILL "${callers[0]}"
    : > go  # on local: the remaining command holds the lock
    # On a server, the lease has to expire.
    eventually has_run 2

    for caller in "${callers[@]:1}"; do assert_exits 0 "$caller"; done
    assert_equal "$(runs)" 2
    assert_equal "$(cat printed-[123])" $'second\nsecond\nsecond'
  done
}

@test "if the caller that runs the command gets SIGTERM, another one takes over" {
  callers=()
  call 1 report -- "${lasting[@]}" 'echo first'
  eventually has_run 1
  call 2 report -- echo second
  eventually has_waiters report 2

  kill -TERM "${callers[0]}"

  assert_exits 143 "${callers[0]}"
  assert_exits 0 "${callers[1]}"
  assert_exits 0 "${callers[2]}"
  assert_equal "$(cat printed-1 printed-2)" $'second\nsecond'
}

@test "callers that wait for output that is too large to be stored run the command in turn" {
  callers=()
  call 3 --max-size 10 report -- "${lasting[@]}" 'echo more than ten bytes'
  eventually has_waiters report 2
  : > go

  for caller in "${callers[@]}"; do assert_exits 0 "$caller"; done

  assert_equal "$(runs)" 3
  assert_equal "$(sort -u printed-*)" 'more than ten bytes'
}

@test "a caller whose wait is over exits with 75 or the code of -E" {
  callers=()
  call 1 report -- "${lasting[@]}" 'echo value'
  eventually has_run 1

  run dlock cache -w 0 report -- echo other
  assert_message 75 'dlock: cache:report: held by'
  run dlock cache -w 100ms -E 9 report -- echo other
  assert_status 9

  : > go
  assert_exits 0 "${callers[0]}"
}

@test "with --stale, an old value is printed while one caller makes a new one" {
  use_both_stores
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    dlock cache --ttl 1ms --stale 1h report -- echo old
    callers=()
    call 1 --ttl 1h report -- "${lasting[@]}" 'echo new'
    eventually has_run 1

    run timeout 60 dlock cache report -- echo other
    assert_equal "$status $output" '0 old'

    : > go
    assert_exits 0 "${callers[0]}"
    assert_equal "$(cat printed-0)" new
    assert_equal "$(dlock cache report -- echo other)" new
  done
}

# --- The run of a command ---

@test "status, list and break show the lock as cache:KEY" {
  use_both_stores
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    callers=()
    call 1 report -- "${lasting[@]}" 'echo value'
    eventually has_run 1
    call 1 report -- echo other
    eventually has_waiters report 1
    run dlock status cache:report
    assert_status 0

    dlock break --yes cache:report

    assert_exits 76 "${callers[0]}"
    assert_equal "$(cat printed-0)" ''
    assert_exits 0 "${callers[1]}"
    assert_equal "$(cat printed-1)" other
    run dlock list
    assert_output_contains cache:report
  done
}

@test "the command gets the environment, standard input, standard error and descriptors of a run, and a straggler does not delay its output" {
  run dlock cache report -- sh -c 'cat; echo "$DLOCK_NAME"; test -n "$DLOCK_FENCE"; echo said >&2' \
    <<< input
  assert_equal "$status $output" $'0 input\ncache:report\nsaid' ||
    assert_equal "$status $output" $'0 said\ninput\ncache:report'

  within_run=$(dlock run job -- sh -c 'echo /proc/$$/fd/*' | sed 's/[0-9]*\/fd/fd/g')

  within_cache=$(dlock cache descriptors -- sh -c 'echo /proc/$$/fd/*' | sed 's/[0-9]*\/fd/fd/g')

  assert_equal "$within_cache" "$within_run"

  run timeout 60 dlock cache leaving -- sh -c 'sleep 600 2> /dev/null & echo value'

  assert_equal "$status $output" '0 value'
  eventually end_leftovers
}

# --- Unwritable output ---

@test "a full standard output exits with 69 and a message, a closed one ends by SIGPIPE in silence, and the value is stored" {
  for how in missed found; do
    run sh -c 'dlock cache "$1" -- sh -c "echo run >> runs; echo value" > /dev/full' - report
    assert_status 69 || { echo "when it was $how" >&2; return 1; }
    assert_one_line
    assert_output_contains 'cannot write to standard output'
  done
  assert_equal "$(dlock cache report -- echo other) $(runs)" 'value 1'

  for _ in missed found; do
    run bash -c 'dlock cache big -- cat random 2>&1 > >(exec head -c 1 > /dev/null)'
    assert_status 141  # SIGPIPE, as cat(1) would end
    assert_equal "$output" ''
  done
  dlock cache big -- false | cmp - random

  # timeout becomes the parent of head, so it stays in the foreground. If it had a group of
  # its own, its end could orphan the other group, which then gets SIGHUP if any process in
  # it is stopped, as it may be by a test that runs at the same time.
  run bash -c 'timeout --foreground 60 dlock cache --max-size 10 endless -- yes 2>&1 > >(exec head -n 1 > /dev/null)'
  assert_status 141
  assert_equal "$output" ''
}

# --- The files of the local store ---

value_file() { find "$BATS_TEST_TMPDIR/store/cache" -type f; }

@test "a damaged or truncated file is reported and replaced" {
  for damage in 'truncate -s -1' 'truncate -s 10' 'truncate -s 0' "sed -i s/value/wrong/" \
    "sed -i 1s/6/7/" 'cp random'; do
    dlock cache report -- echo value > /dev/null
    $damage "$(value_file)"

    run dlock cache report -- echo new

    assert_status 0
    assert_output_contains "$(value_file) is damaged"
    assert_output_contains new
    assert_equal "$(dlock cache report -- echo other)" new
    dlock cache --forget report
  done
}

@test "storing a value removes expired values and abandoned files in its directory" {
  dlock cache --ttl 1ms report -- echo value
  first=$(value_file)
  folder=${first%/*}
  cp "$first" "$folder/0123456789abcd${folder##*/}"
  touch -d '2 hours ago' "$folder/new-0123456789abcdef"
  : > "$folder/new-fedcba9876543210"

  dlock cache report -- echo new

  assert_equal "$(find "$folder" -type f | sort)" "$(printf '%s\n' "$first" "$folder/new-fedcba9876543210" | sort)"
  assert_equal "$(stat -c %a "$folder" "$first" store/cache)" $'700\n600\n700'
}

@test "on a full disk the output is printed, and the old value stays" {
  use_private_mounts
  inside mount -t tmpfs -o mode=755,size=3m none /mnt
  export DLOCK_STORE=local:/mnt/store
  there() { inside sh -c 'cd "$1" && shift && exec "$@"' - "$PWD" "$@"; }
  there dlock cache --ttl 1ms --stale 1h big -- echo old

  run there sh -c 'dlock cache --ttl 1h big -- cat random > printed'

  assert_message 0 'not cached' 'No space left'
  cmp printed random
  assert_equal "$(inside sh -c 'find /mnt/store/cache -type f | wc -l')" 1
  # The old value is still stored.
  there dlock cache big -- "${lasting[@]}" true 3>&- &
  eventually has_run 1
  assert_equal "$(there dlock cache big -- echo other)" old
  : > go
}

# --- cache --show ---

@test "--show prints the size, the age and the maker of a value" {
  use_both_stores
  for DLOCK_STORE in "${stores[@]}"; do
    begin
    run dlock cache report --show
    assert_equal "$status $output" "1 nothing is cached in $DLOCK_STORE"
    run dlock cache report --show --json
    assert_equal "$status $(json .cached) $(json .size)" '1 false null'

    dlock cache --ttl 1h --stale 1h report -- echo hello > /dev/null
    run dlock cache report --show
    assert_status 0
    assert_output_contains '6 bytes, stored '
    assert_output_contains 'fresh for another '
    run dlock cache report --show --json
    assert_equal "$(json '.key, .cached, .size, .maker')" $'report\ntrue\n6\nnull'
    assert_between "$(json .age_ms)" 0 60000
    assert_between "$(json .fresh_for_ms)" 3500000 3600000
    assert_between "$(json .expires_in_ms)" 7100000 7200000

    dlock run cache:report -- sleep 60 &
    pid=$!
    eventually is_made report
    run dlock cache report --show --json
    assert_equal "$(json .maker.pid)" "$pid"
    kill "$pid"
    wait "$pid" || true
  done
}

is_made() { [[ $(dlock cache "$1" --show --json | jq .maker) != null ]]; }
