#!/usr/bin/env bats
# --report: the outcome of a run, whatever it is, as JSON in a file.

setup() {
  load support
  use_private_store
  store=$BATS_TEST_TMPDIR/store
}

# Asserts the result of a jq filter on the report.
assert_reported() {  # <filter> <expected>
  output=$(< "$report")
  assert_equal "$(json "$1")" "$2"
}

assert_outcome() {  # <outcome> <exit code> <signal>
  assert_reported '"\(.outcome) \(.exit_code) \(.signal)"' "$1 $2 $3"
}

# --- The format ---

@test "a report is one line with the documented keys in the documented order, and tells who ran what, when and where" {
  local before after
  printf -v before '%(%s)T'
  dlock run --report "$report" --label nightly -n 3 'a "job"' -- sh -c 'echo "$DLOCK_FENCE $DLOCK_SLOT" > "$0"; sleep 0.1' "$began" 'a b'
  printf -v after '%(%s)T'

  keys='name run_id outcome reason protected exit_code signal fence slot locks store'
  keys+=' strength host user command label started ended waited_ms ran_ms margin_ms holder output_tail message'
  assert_reported 'keys_unsorted | join(" ")' "$keys"
  assert_equal "$(wc -l < "$report")" 1
  assert_reported '"\(.name) \(.store)"' "a \"job\" local:$store"
  assert_reported '"\(.fence) \(.slot)"' "$(< "$began")"
  assert_reported '"\(.host) \(.user) \(.label)"' "$(uname -n) $(id -un) nightly"
  assert_reported '.command[3:] | tojson' "[\"$began\",\"a b\"]"
  ms='(sub("\\.[0-9]+Z"; "Z") | fromdate) * 1000 + (capture("\\.(?<ms>[0-9]+)Z").ms | tonumber)'
  assert_reported "(.started | $ms) >= $before * 1000 and (.ended | $ms) < ($after + 1) * 1000 and .ran_ms >= 100" true
  assert_reported "(.ended | $ms) - (.started | $ms) - .ran_ms" 0
}

@test "a report, whose path may be relative, replaces an older and longer one completely, and only at the end" {
  cd "$BATS_TEST_TMPDIR"
  yes 'an older report' | head -n 1000 > older
  cp older report

  dlock run --report report job -- sh -c 'cd / && cmp "$0/report" "$0/older"' "$PWD"

  assert_outcome ran 0 null
  assert_equal "$(wc -l < "$report")" 1
}

# --- The outcomes ---

@test "busy: the report has the holder as in status, the wait, and the exit code of -E" {
  hold job --label nightly
  dlock run -w 150ms --report "$report" job -- true || true

  assert_outcome busy 75 null
  assert_reported '[.protected, .fence, .slot, .ran_ms, .started, .ended, .label, .strength, .command] | tojson' \
    '[null,null,null,null,null,null,null,null,["true"]]'
  assert_reported '.waited_ms >= 150 and .waited_ms < 10000' true
  assert_reported '.holder | del(.held_ms) | tojson' "$(look job '.holders[0] | del(.held_ms) | tojson')"
  assert_reported '.message | startswith("not acquired within 150ms: held by ")' true

  dlock run -E 0 --report "$report" job -- true
  assert_outcome busy 0 null
}

# Runs a command that --timeout ends after it has created the file $began. On a slow machine it may
# not come so far in time; the next one gets longer.
time_out() {  # <--kill-after> <shell line>
  for limit in 300ms 3s 20s; do
    rm -f "$began"
    dlock run --timeout "$limit" -k "$1" --report "$report" job -- sh -c "$2"' : > "$0"; sleep 60 & wait' "$began" || true
    [[ ! -e $began ]] || return 0
  done
}

@test "timeout: --timeout ended the command, --kill-after killed it, or it exited by itself after SIGTERM" {
  time_out 30s ''
  assert_outcome timeout null TERM
  time_out 50ms 'trap "" TERM;'
  assert_outcome timeout null KILL
  time_out 30s 'trap "exit 3" TERM;'
  assert_outcome timeout 3 null
}

@test "interrupted: a signal came during the wait, or during --jitter" {
  hold job
  queue job --report "$report" -- true
  kill -TERM "$waiter"
  assert_exits 143 "$waiter"
  assert_outcome interrupted null TERM

  rm "$report"
  dlock run --jitter 1h --report "$report" job -- true 3>&- &
  waiter=$!
  eventually is_deaf_to_term "$waiter"
  kill -TERM "$waiter"
  assert_exits 143 "$waiter"
  assert_outcome interrupted null TERM
}

# True once dlock blocks SIGTERM, which it then receives in its own time. The shell blocks
# SIGTERM as well when it forks, so the name of the process is also checked.
is_deaf_to_term() {
  [[ $(< "/proc/$1/comm") == dlock ]] && grep -q '^SigBlk:.*[4-7c-f]...$' "/proc/$1/status"
}

@test "unavailable: a stopped run blocked the store" {
  dlock run job -- true
  export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
  # A run that is stopped while it changes the lock.
  strace -o "$BATS_TEST_TMPDIR/strace.log" -e trace=pwrite64 \
    -e inject=pwrite64:signal=STOP:when=1 dlock run job -- true 3>&- &
  eventually is_stopped

  dlock --store-timeout 100ms run --report "$report" job -- true || true

  assert_outcome unavailable 69 null
}

# The state in /proc is no proof: strace stops the process briefly at every system call.
is_stopped() { grep -q '^--- stopped by SIGSTOP' "$BATS_TEST_TMPDIR/strace.log"; }

# --- Lost locks ---

# Starts a run that ends only on SIGTERM, and then removes files that its lock needs.
lose() {  # <shell command that removes them>
  rm -f "$BATS_TEST_TMPDIR/trapped"
  dlock run --report "$report" job -- \
    sh -c 'trap "exit 0" TERM; echo trapped; sleep 60 & wait' \
    > "$BATS_TEST_TMPDIR/trapped" 2> "$BATS_TEST_TMPDIR/messages" 3>&- &
  loser=$!
  eventually test -s "$BATS_TEST_TMPDIR/trapped"
  eval "$1"
}

@test "lost: a later removal of the store is noticed at once" {
  lose :
  # A run watches the files that it relies on once it has lasted for a second.
  eventually watches_files

  remove "$store"

  assert_exits 76 "$loser"
}

watches_files() { grep -qs '^inotify ' "/proc/$loser"/fdinfo/*; }

@test "a run is not lost if the log is removed" {
  hold job
  eventually test -e "$store/runs.jsonl"

  rm "$store/runs.jsonl"
  let_go

  assert_exits 0 "$holder"
}

# --- Destinations ---

@test "a report that cannot be written keeps the command from starting, and dlock does not wait" {
  mkfifo "$report"
  for path in "$BATS_TEST_TMPDIR/no/report" "$BATS_TEST_TMPDIR" "$report"; do
    run timeout 60 dlock run --report "$path" job -- echo started

    assert_message 78
  done
  assert_output_contains 'a FIFO that no one reads?'
}

@test "a report may go to a FIFO, to standard error as -, and to a pipe or a file with the command's output" {
  mkfifo "$report"
  cat "$report" > "$began" 3>&- &
  reader=$!
  while_it_fails_with 78 dlock run --report "$report" job -- true
  assert_exits 0 "$reader"
  assert_equal "$(jq -r .outcome "$began")" ran

  rm "$report"
  dlock run --report - job -- true 2> "$report"
  assert_outcome ran 0 null
  [[ ! -e - ]]

  dlock run --report /dev/stdout job -- echo started | cat > "$began"
  dlock run --report /dev/stdout job -- echo started > "$report"
  for file in "$began" "$report"; do
    mapfile -t lines < "$file"
    assert_equal "${#lines[@]} ${lines[0]}" '2 started'
    assert_equal "$(jq -r .outcome <<< "${lines[1]}")" ran
  done

  for _ in 1 2; do dlock run --output "$BATS_TEST_TMPDIR/both" --report "$BATS_TEST_TMPDIR/both" job -- echo started; done
  assert_equal "$(cut -c 1-9 "$BATS_TEST_TMPDIR/both" | tr '\n' ' ')" 'started {"name":" started {"name":" '

  # The output fills the pipe completely, and its reader is slow.
  dlock run --report /dev/stdout job -- head -c 65536 /dev/zero |
    { sleep 0.5; tail -c +65537; } > "$began"
  assert_equal "$(jq -r .outcome "$began")" ran
}

@test "a report to a standard error without a reader does not block the run" {
  mkfifo "$BATS_TEST_TMPDIR/errors"
  exec 4<> "$BATS_TEST_TMPDIR/errors"
  # The pipe is full.
  head -c 65536 /dev/zero >&4

  dlock run --report - job -- true 2>&4 3>&- &

  assert_exits 0 $!
}

@test "a failed write of the report is an error message and does not change the exit code" {
  [[ -c /dev/full ]] || skip 'no /dev/full'

  run dlock run --report /dev/full job -- sh -c 'exit 3'

  assert_message 3
}

# Opens a FIFO as $report, and fills it.
fill_fifo() {
  mkfifo "$report"
  exec 4<> "$report"
  head -c 65536 /dev/zero >&4
}

# The lock was given back, and the FIFO is still full.
waits_for_reader() {  # <pid>
  dlock history --json job | jq -e '.[0].exit_code != null' && is_free job && ! has_ended "$1"
}

@test "a report to a FIFO without a reader does not block the run, nor keep the lock" {
  fill_fifo
  dlock run --report "$report" job -- sh -c 'exit 3' 2> "$began" 3>&- 4>&- &

  eventually waits_for_reader $!

  assert_exits 3 $!
  assert_equal "$(< "$began")" \
    "dlock: job: cannot write the report to $report: Resource temporarily unavailable"
}

@test "a signal ends a run that waits for the reader of its report" {
  fill_fifo
  dlock run --report "$report" job -- true 3>&- 4>&- &
  eventually waits_for_reader $!

  kill -TERM $!

  assert_exits 143 $!
}

# Asserts that a run with a report there does not start, and leaves this file alone.
assert_report_refused() {  # <path of the report> <file> <word>...
  local word
  run timeout 60 dlock run --report "$1" job -- echo started
  assert_message 78
  for word in "${@:3}"; do assert_output_contains "$word"; done
  assert_equal "$(cat "$2")" precious
}

@test "a report does not follow the link of another user" {
  needs_root
  victim=$BATS_TEST_TMPDIR/victim
  mkdir "$BATS_TEST_TMPDIR/tmp"
  chmod 1777 "$BATS_TEST_TMPDIR/tmp"
  install -d -o 1001 "$BATS_TEST_TMPDIR/of-another"
  mkdir "$BATS_TEST_TMPDIR/inner"
  for directory in tmp of-another inner; do
    echo precious > "$victim"
    ln -s "$victim" "$BATS_TEST_TMPDIR/$directory/report"
    ln -s "$BATS_TEST_TMPDIR" "$BATS_TEST_TMPDIR/$directory/further"
    chown -h 1001 "$BATS_TEST_TMPDIR/$directory"/{report,further}
    for path in report further/victim further/new; do
      assert_report_refused "$BATS_TEST_TMPDIR/$directory/$path" "$victim" 'refusing to follow the link' \
        "$BATS_TEST_TMPDIR/$directory/${path%/*}" 'belongs to'
    done
    [[ ! -e $BATS_TEST_TMPDIR/new ]]
  done
}

@test "where everyone can create files, a report does not replace another user's file or FIFO" {
  needs_root
  tmp=$BATS_TEST_TMPDIR/tmp
  mkdir "$tmp"
  chmod 1777 "$tmp"
  echo precious > "$tmp/file"
  # Opened before it is there: with fs.protected_fifos, as on Debian, a shell could not open it there.
  mkfifo -m 666 "$BATS_TEST_TMPDIR/fifo"
  exec 4<> "$BATS_TEST_TMPDIR/fifo"
  mv "$BATS_TEST_TMPDIR/fifo" "$tmp/fifo"
  chown 1001 "$tmp"/{file,fifo}

  assert_report_refused "$tmp/file" "$tmp/file" "$tmp/file, which 1001 has made"
  assert_report_refused "$tmp/fifo" "$tmp/file" "$tmp/fifo, which 1001 has made"

  chown 0 "$tmp/file"
  dlock run --report "$tmp/file" job -- true
  assert_equal "$(jq -r .outcome "$tmp/file")" ran
}
