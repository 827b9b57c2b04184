#!/usr/bin/env bats
# --on-success, --on-failure, --on-busy: the hooks that run when a run is over, and --on-start, which
# runs beside the command.

setup() {
  load support
  use_private_store
  export heard=$BATS_TEST_TMPDIR/heard
  # All three, each with its name.
  hooks=(--on-success 'echo success >> "$heard"' --on-failure 'echo failure >> "$heard"'
    --on-busy 'echo busy >> "$heard"')
}

# Asserts what the hooks have written, and removes it.
assert_heard() {
  local is
  is=$(cat "$heard" 2> /dev/null || true)
  rm -f "$heard"
  assert_equal "$is" "$1"
}

# A hook that records the variables that it got, in a fixed order.
told='echo "$DLOCK_NAME|$DLOCK_OUTCOME|${DLOCK_REASON?}|${DLOCK_EXIT_CODE?}|${DLOCK_SIGNAL?}|${DLOCK_HOLDER_HOST?}" >> "$heard"'

# --- Which hook runs, and what it gets ---

@test "--on-success runs if the command exits with 0" {
  dlock run "${hooks[@]}" job -- true

  assert_heard success
}

# Runs a command with all three hooks, and asserts that dlock exits with this code, after --on-failure
# alone has run, with these values.
assert_fails() {  # <exit code> <what the hook gets> <argument>...
  local code=0
  dlock run "${hooks[@]}" --on-failure "echo failure >> \"\$heard\"; $told" "${@:3}" 2> "$heard.said" || code=$?
  assert_equal "$code" "$1"
  assert_heard "failure
$2"
}

@test "--on-failure runs if the command fails, is killed or not found, and the exit code is as without it" {
  assert_fails 3 'a job|ran||3||' 'a job' -- sh -c 'exit 3'
  assert_fails 143 'job|ran|||TERM|' job -- sh -c 'kill -TERM $$'
  assert_fails 124 'job|timeout|||TERM|' --timeout 50ms job -- sleep 600
  assert_fails 127 'job|not-started||127||' job -- /no/such/command
}

@test "--on-failure runs if the store or the report cannot be used, or the lock has another number of slots" {
  assert_fails 69 'job|unavailable||69||' --store redis://127.0.0.1:1 job -- true
  assert_fails 78 'job|error||78||' --report "$BATS_TEST_TMPDIR/no/report" job -- true
  assert_equal "$(wc -l < "$heard.said")" 1
  mkdir -m 777 "$BATS_TEST_TMPDIR/open"
  assert_fails 77 'job|error||77||' --store "local:$BATS_TEST_TMPDIR/open" job -- true
  assert_equal "$(wc -l < "$heard.said")" 1
  hold job -n 3
  assert_fails 78 'job|error||78||' -n 2 job -- true
}

@test "--on-failure runs if the lock was lost, with the reason and the command's own exit code" {
  dlock run "${hooks[@]}" --on-failure "$told" job -- sh -c 'trap "exit 7" TERM; : > "$heard.trapped"; sleep 60 & wait' 3>&- &
  eventually test -e "$heard.trapped"

  dlock break --yes job

  assert_exits 76 $!
  assert_heard 'job|lost|broken|7||'
}

@test "--on-busy runs if the lock is held, whatever -E is, or if --wait is over" {
  hold job

  run dlock run "${hooks[@]}" --on-busy "$told" job -- true
  assert_status 75
  assert_heard "job|busy||75||$(uname -n)"
  run dlock run "${hooks[@]}" -E 0 job -- true
  assert_equal "$status" 0
  assert_heard busy
  run dlock run "${hooks[@]}" -w 50ms job -- true
  assert_status 75
  assert_heard busy
}

@test "no hook runs if the run is deduplicated, or a signal ended the wait" {
  dlock run job -- true
  dlock run "${hooks[@]}" --dedupe 1h job -- true
  assert_heard ''

  hold job
  queue job "${hooks[@]}" -- true
  kill -TERM "$waiter"
  assert_exits 143 "$waiter"
  assert_heard ''
}

@test "an empty hook disables the one in the configuration file" {
  printf '[run]\non-success = "echo file >> \\"$heard\\""\n' > "$BATS_TEST_TMPDIR/config.toml"

  dlock --config "$BATS_TEST_TMPDIR/config.toml" run job -- true
  dlock --config "$BATS_TEST_TMPDIR/config.toml" run --on-success '' job -- true

  assert_heard file
}

@test "a hook gets the report, which is written by then, on standard input, and the duration of the command" {
  report=$BATS_TEST_TMPDIR/report

  dlock run --report "$report" --on-success "cat > \"\$heard\"; cp '$report' \"\$heard.copy\"; echo \"\$DLOCK_RAN_MS\" > \"\$heard.ran\"" job -- sleep 0.1

  cmp "$heard" "$report"
  cmp "$heard.copy" "$report"
  assert_equal "$(jq -r .ran_ms "$heard")" "$(< "$heard.ran")"
  assert_between "$(< "$heard.ran")" 100 30000
}

@test "a hook gets all of a long report, and does not have to read it" {
  long=$(head -c 100000 /dev/zero | tr '\0' x)

  dlock run --on-success 'cat > "$heard"' job -- true "$long"
  assert_equal "$(jq -r '.command[1] | length' "$heard")" 100000
  dlock run --on-success 'exec true' job -- true "$long"
}

@test "the lock is free when the hook runs, which uses the store of the run and gets no fence, slot or secret" {
  export DLOCK_PASSWORD=secret-1 DLOCK_TOKEN=9e4f0c3c4cbb1ddc7b8e31e0ca1e4ab1

  dlock --namespace team run --on-success 'env > "$heard"; unset DLOCK_CONFIG; dlock status --json "$DLOCK_NAME" > "$heard.status"
    dlock run "$DLOCK_NAME" -- sh -c "echo \$? > \"\$heard.inside\""' job -- true

  assert_equal "$(< "$heard.inside")" 0
  assert_equal "$(jq -r '"\(.state) \(.last_run.exit_code)"' "$heard.status")" 'free 0'
  grep -q DLOCK_NAME=job "$heard"
  assert_equal "$(grep -E '^DLOCK_(FENCE|SLOT|HELD)=|secret-1|9e4f0c3c' "$heard")" ''
}

@test "a hook gets the signal settings that dlock was started with" {
  # nohup ignores HUP like this. The hook uses exec because some shells reset the mask.
  env --default-signal --ignore-signal=HUP \
    dlock run --on-success 'exec grep -E "^Sig(Blk|Ign)" /proc/self/status > "$heard"' job -- true

  assert_heard "$(printf 'SigBlk:\t0000000000000000\nSigIgn:\t0000000000000001')"
}

@test "the output of a hook goes to standard error" {
  dlock run --on-success 'echo said; echo more >&2' job -- true 2> "$heard" > "$heard.out"

  assert_heard 'said
more'
  assert_equal "$(< "$heard.out")" ''
}

# --- A hook that fails ---

@test "a hook that fails or is killed is a warning, but not with -q, and does not change the exit code" {
  run dlock run --on-failure 'exit 4' job -- sh -c 'exit 3'
  assert_message 3 'the --on-failure command ended with exit code 4'

  run dlock run --on-start 'exit 4' job -- sh -c 'exit 3'
  assert_message 3 'the --on-start command ended with exit code 4'

  run dlock run --on-success 'kill -KILL $$' job -- true
  assert_status 0
  assert_output_contains 'the --on-success command was killed by SIGKILL'

  run dlock -q run --on-success 'exit 4' job -- true
  assert_equal "$status $output" '0 '
}

@test "processes that a hook leaves behind continue, and dlock does not wait for them" {
  dlock run --on-success 'sleep 600 3>&- & echo $! > "$heard"' job -- true 2> /dev/null

  kill -0 "$(< "$heard")"
}

# --- Signals while a hook runs ---

# Starts a run whose hook waits, and has started a process that waits as well.
start_hook() {  # [<what the hook does first>]
  dlock run --on-success "${1:-} sleep 600 & echo \$! \$\$ > \"\$heard\"; wait; sleep 600" job -- true 3>&- &
  runner=$!
  eventually test -s "$heard"
  read -r left hook < "$heard"
}

@test "a signal while a hook runs ends the hook and its processes, and dlock ends by that signal" {
  start_hook

  kill -TERM "$runner"

  assert_exits 143 "$runner"
  eventually has_ended "$hook"
  eventually has_ended "$left"
}

@test "a second signal kills a hook that does not end" {
  start_hook "trap '' TERM;"
  kill -TERM "$runner"
  never_within 200 has_ended "$runner"

  kill -TERM "$runner"

  assert_exits 143 "$runner"
  eventually has_ended "$hook"
  eventually has_ended "$left"
}

@test "a signal that does not kill a process does not kill a hook" {
  mkfifo "$heard.fifo"
  dlock run --on-success 'echo $$ > "$heard.pid"; read -r _ < "$heard.fifo"; echo on > "$heard"' job -- true 3>&- &
  runner=$!
  eventually test -s "$heard.pid"

  kill -WINCH "$runner"
  echo > "$heard.fifo"

  assert_exits 0 "$runner"
  assert_heard on
}

@test "when the hook of a run on a server starts, the lock is released and the guardian has exited" {
  use_server_as_store

  dlock run --on-success 'dlock run "$DLOCK_NAME" -- true && pgrep -c -P "$PPID" > "$heard"' job -- true

  # The hook itself is the only child.
  assert_heard 1
}

# --- --on-start ---

# The command waits for the hook, so this would not end if the hook did not run beside it.
beside=(sh -c 'echo "$DLOCK_RUN_ID" > "$heard.run"; dlock run inner -- printenv DLOCK_RUN_ID > "$heard.nested"; until test -s "$heard"; do sleep 0.01; done; exit 3')

@test "--on-start runs beside the command, with the report as far as it is known, and its own run id" {
  for store in "$DLOCK_STORE" server; do
    [[ $store != server ]] || use_server_as_store
    rm -f "$heard"

    run dlock run --on-start 'cat > "$heard.in"; mv "$heard.in" "$heard"' \
      --on-failure 'cat > "$heard.after"; echo "$DLOCK_RUN_ID" > "$heard.id"' \
      --report "$heard.report" job -- timeout 60 "${beside[@]}"

    assert_status 3
    output=$(< "$heard")
    assert_equal "$(json '"\(.name) \(.outcome) \(.protected) \(.exit_code) \(.ended) \(.ran_ms)"')" \
      'job null true null null null'
    started=$(json '"\(.started) \(.fence) \(.run_id)"')
    output=$(< "$heard.report")
    assert_equal "$(json '"\(.started) \(.fence) \(.run_id)"')" "$started"
    assert_equal "$(< "$heard.report")" "$(< "$heard.after")"
    assert_equal "$(json .run_id)" "$(< "$heard.run")"
    assert_equal "$(json .run_id)" "$(< "$heard.id")"
    [[ $(< "$heard.nested") != "$(json .run_id)" ]]
    [[ $(json .run_id) =~ ^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$ ]]
  done
}

@test "--on-start does not run if the command does not" {
  hold job

  run dlock run --on-start 'echo on-start > "$heard"' job -- true
  assert_status 75
  dlock run --on-start 'echo on-start > "$heard"' other -- /no/such/command || [[ $? == 127 ]]

  assert_heard ''
}

@test "the lock is free while dlock waits for --on-start, and the other hooks run after it" {
  dlock run --on-start 'dlock run -w 9s "$DLOCK_NAME" -- true && echo start > "$heard"' \
    --on-success 'echo success >> "$heard"' job -- true

  assert_heard 'start
success'
}

@test "what stops the command and its stragglers does not end --on-start, nor what that leaves behind" {
  for store in "$DLOCK_STORE" server; do
    [[ $store != server ]] || use_server_as_store
    rm -f "$heard"*
    for what in 'wait' 'kill'; do
      run timeout 60 dlock run --timeout 40s --stragglers "$what" \
        --on-start 'sleep 600 3>&- > /dev/null 2>&1 & echo $! > "$heard.left"; until test -e "$heard"; do sleep 0.01; done; echo on-start' \
        --on-failure ': > "$heard.failed"' job -- sh -c 'until test -s "$heard.left"; do sleep 0.01; done; (sleep 0.1; : > "$heard") & exit 3'
      assert_status 3
      [[ $what == kill ]] || assert_equal "$output" on-start
      kill -0 "$(< "$heard.left")"
      kill "$(< "$heard.left")"
      : > "$heard"
      rm "$heard.left"
    done
  done
}

# Starts a run whose --on-start waits, and whose command is `true` unless given.
start_beside() {  # [<command>...]
  dlock run --on-start 'echo $$ > "$heard"; exec sleep 600' job -- "${@:-true}" 3>&- &
  runner=$!
  eventually test -s "$heard"
  hook=$(< "$heard")
}

@test "a signal while dlock waits for --on-start ends it, and dlock by that signal" {
  start_beside
  eventually is_free job

  kill -TERM "$runner"

  assert_exits 143 "$runner"
  eventually has_ended "$hook"
}

@test "--on-start does not start if dlock is killed right after the start of the command" {
  hold job
  dlock run --wait 60s --on-start 'echo $$ > "$heard"; exec sleep 600' job -- sh -c ': > "$heard.began"; exec sleep 60' 3>&- &
  runner=$!
  eventually is_queued job "$runner"
  waiting=$(pgrep -P "$runner" -x dlock-on-start)
  halt "$waiting"
  let_go
  eventually test -e "$heard.began"

  kill -KILL "$runner"
  assert_exits 137 "$runner"
  kill -CONT "$waiting"

  eventually has_ended "$waiting"
  [[ ! -e $heard ]]
}

@test "a signal for the command does not end --on-start, and the death of dlock does" {
  start_beside sh -c 'trap ": > \"$heard.told\"" TERM; sleep 60 & wait'
  kill -TERM "$runner"
  eventually test -e "$heard.told"
  kill -0 "$hook"

  kill -KILL "$runner"

  assert_exits 137 "$runner"
  eventually has_ended "$hook"
}
