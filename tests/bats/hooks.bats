#!/usr/bin/env bats
# --on-success, --on-failure, --on-busy: the hooks that run when a run is over, and --on-start, which
# runs beside the command.
# shellcheck disable=SC2016  # what the hooks' shell is to expand
# shellcheck disable=SC2154  # hold and queue set holder, command and waiter
# shellcheck disable=SC2030,SC2031  # tests are subshells and set things for themselves

setup() {
  load support
  load ../faults/locks
  use_private_store
  export heard=$BATS_TEST_TMPDIR/heard
  # All three, each with its name.
  hooks=(--on-success 'echo success >> "$heard"' --on-failure 'echo failure >> "$heard"'
    --on-busy 'echo busy >> "$heard"')
}

teardown() { kill_leftovers; }

assert_heard() { assert_equal "$(cat "$heard" 2> /dev/null)" "$1"; }

# --- Which hook runs ---

@test "--on-success runs if the command exits with 0" {
  dlock run "${hooks[@]}" job -- true

  assert_heard success
}

@test "--on-failure runs if the command fails, and dlock exits with the command's exit code" {
  run dlock run "${hooks[@]}" job -- sh -c 'exit 3'

  assert_status 3
  assert_heard failure
}

@test "--on-failure runs if a signal killed the command, and dlock ends by the same signal" {
  run dlock run "${hooks[@]}" job -- sh -c 'kill -TERM $$'

  assert_status 143
  assert_heard failure
}

@test "--on-failure runs if --timeout ended the command" {
  run dlock run "${hooks[@]}" --timeout 50ms job -- sleep 600

  assert_status 124
  assert_heard failure
}

@test "--on-failure runs if the command was not found" {
  local status=0
  dlock run "${hooks[@]}" job -- /no/such/command || status=$?

  assert_equal "$status" 127
  assert_heard failure
}

@test "--on-failure runs if the lock was lost" {
  dlock run "${hooks[@]}" job -- sleep 600 3>&- &
  eventually is_held job

  dlock break --yes job

  assert_exits 76 $!
  assert_heard failure
}

@test "--on-failure runs if the store cannot be reached" {
  run dlock --store redis://127.0.0.1:1 run "${hooks[@]}" job -- true

  assert_status 69
  assert_heard failure
}

@test "--on-failure runs if the store's directory is not safe to use" {
  mkdir -m 777 "$BATS_TEST_TMPDIR/store"

  run dlock run "${hooks[@]}" job -- true

  assert_status 77
  assert_equal "${#lines[@]}" 1
  assert_heard failure
}

@test "--on-failure runs if the report cannot be written" {
  run dlock run "${hooks[@]}" --report "$BATS_TEST_TMPDIR/no/report" job -- true

  assert_status 78
  assert_equal "${#lines[@]}" 1
  assert_heard failure
}

@test "--on-failure runs if the lock is in use with another number of slots" {
  hold job -n 3

  run dlock run "${hooks[@]}" -n 2 job -- true

  assert_status 78
  assert_heard failure
}

@test "--on-busy runs if the lock is held, whatever -E is" {
  hold job

  run dlock run "${hooks[@]}" job -- true
  assert_status 75
  run dlock run "${hooks[@]}" -E 0 job -- true
  assert_status 0

  assert_heard 'busy
busy'
}

@test "--on-busy runs if --wait is over" {
  hold job

  run dlock run "${hooks[@]}" -w 50ms job -- true

  assert_status 75
  assert_heard busy
}

@test "no hook runs if the run is deduplicated" {
  dlock run job -- true

  dlock run "${hooks[@]}" --dedupe 1h job -- true

  assert_heard ''
}

@test "no hook runs if a signal ended the wait" {
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

# --- What a hook gets ---

# A hook that records the variables that it got, in a fixed order.
told='echo "$DLOCK_NAME|$DLOCK_OUTCOME|${DLOCK_REASON?}|${DLOCK_EXIT_CODE?}|${DLOCK_SIGNAL?}|${DLOCK_HOLDER_HOST?}" > "$heard"'

@test "a hook gets the result of a failed command" {
  dlock run --on-failure "$told" 'a job' -- sh -c 'exit 3' || true

  assert_heard 'a job|ran||3||'
}

@test "a hook gets the signal" {
  dlock run --on-failure "$told" job -- sh -c 'kill -TERM $$' || true

  assert_heard 'job|ran|||TERM|'
}

@test "a hook gets the holder of the lock" {
  hold job

  dlock run --on-busy "$told" job -- true || true

  assert_heard "job|busy||75||$(uname -n)"
}

# Hosts choose their names themselves, so a name can be anything.
@test "a hook gets the holder's host in a form that no program misunderstands" {
  needs_root
  evil=$'-oProxyCommand=id\e[2J$(id)'
  # shellcheck disable=SC2154  # the helper sets them
  for store in "$DLOCK_STORE" redis; do
    [[ $store != redis ]] || { use_server_as_store && store=$DLOCK_STORE; }
    dlock_on() { unshare --uts sh -c 'printf %s "$0" > /proc/sys/kernel/hostname; exec "$@"' "$@"; }
    dlock_on "$evil" dlock --store "$store" acquire job --ttl 5m > /dev/null
    assert_equal "$(dlock --store "$store" status --json job | jq -r '.holders[0].host')" "$evil"

    run dlock --store "$store" run --on-busy 'printf %s "$DLOCK_HOLDER_HOST" > "$heard"; cat > "$heard.report"' job -- true

    assert_status 75
    assert_heard "_oProxyCommand_id__2J__id_"
    assert_equal "$(wc -l < "$heard.report")" 1
    refute_output_contains $'\e'
    assert_one_line
  done
}

@test "a hook gets the reason of a loss and the command's own exit code" {
  dlock run --on-failure "$told" job -- \
    sh -c 'trap "exit 7" TERM; : > "$heard.trapped"; while :; do sleep 0.1; done' 3>&- &
  eventually test -e "$heard.trapped"

  dlock break --yes job

  assert_exits 76 $!
  assert_heard 'job|lost|broken|7||'
}

@test "a hook gets the duration of the command" {
  dlock run --on-success 'echo "$DLOCK_RAN_MS" > "$heard"' job -- sleep 0.1

  assert_between "$(< "$heard")" 100 30000
}

@test "a hook gets the report on standard input" {
  hold job

  dlock run --report "$BATS_TEST_TMPDIR/report" --on-busy 'cat > "$heard"' job -- true || true

  assert_heard "$(< "$BATS_TEST_TMPDIR/report")"
  assert_equal "$(jq -r .outcome "$heard")" busy
}

@test "a hook gets all of a long report, and does not have to read it" {
  long=$(head -c 100000 /dev/zero | tr '\0' x)

  dlock run --on-success 'cat > "$heard"' job -- true "$long"
  assert_equal "$(jq -r '.command[1] | length' "$heard")" 100000
  dlock run --on-success 'exec true' job -- true "$long"
}

@test "the report is written before the hook starts" {
  report=$BATS_TEST_TMPDIR/report

  dlock run --report "$report" --on-success "cp '$report' \"\$heard\"" job -- true

  assert_equal "$(jq -r .outcome "$heard")" ran
}

@test "the lock is free when the hook runs" {
  dlock run --on-success 'dlock run "$DLOCK_NAME" -- sh -c "echo \$? > \"\$heard\""' job -- true

  assert_heard 0
}

@test "a hook gets no fence and no slot, because the lock is no longer held" {
  dlock run --on-success 'env > "$heard"' job -- true

  assert_equal "$(grep -E '^DLOCK_(FENCE|SLOT|HELD)=' "$heard")" ''
}

@test "a hook uses the store of the run" {
  dlock --namespace team run --on-success \
    'unset DLOCK_CONFIG; dlock status --json "$DLOCK_NAME" > "$heard"; true' job -- true

  assert_equal "$(jq -r .last_run.exit_code "$heard")" 0
}

@test "no secret reaches a hook" {
  export DLOCK_PASSWORD=secret-1 DLOCK_TOKEN=9e4f0c3c4cbb1ddc7b8e31e0ca1e4ab1

  dlock run --on-success 'env > "$heard"' job -- true

  grep -q DLOCK_NAME=job "$heard"
  assert_equal "$(grep -E 'secret-1|9e4f0c3c' "$heard")" ''
}

@test "a hook gets the signal settings that dlock was started with" {
  # nohup ignores HUP like this. The hook uses exec because some shells reset the mask.
  (
    trap '' HUP
    dlock run --on-success 'exec grep -E "^Sig(Blk|Ign)" /proc/self/status > "$heard"' job -- true
  )

  assert_heard "$(printf 'SigBlk:\t0000000000000000\nSigIgn:\t0000000000000001')"
}

@test "the output of a hook goes to standard error" {
  dlock run --on-success 'echo said; echo more >&2' job -- true 2> "$heard" > "$heard.out"

  assert_heard 'said
more'
  assert_equal "$(< "$heard.out")" ''
}

# --- A hook that fails ---

@test "a hook that fails is a warning, and does not change the exit code" {
  run dlock run --on-failure 'exit 4' job -- sh -c 'exit 3'

  assert_status 3
  assert_one_line
  assert_output_contains 'the --on-failure command ended with exit code 4'
}

@test "a hook that a signal kills is a warning" {
  run dlock run --on-success 'kill -KILL $$' job -- true

  assert_status 0
  assert_output_contains 'the --on-success command was killed by SIGKILL'
}

@test "with --quiet there is no warning about a hook that fails" {
  run dlock -q run --on-success 'exit 4' job -- true

  assert_status 0
  assert_equal "$output" ''
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

  EVENTUALLY_MS=3000 assert_exits 143 "$runner"
  eventually has_ended "$hook"
  eventually has_ended "$left"
}

@test "signals that ended the command do not end the hook" {
  dlock run --on-failure 'sleep 0.2; echo told > "$heard"' job -- \
    sh -c 'trap "exit 9" TERM; : > "$heard.trapped"; while :; do sleep 0.1; done' 3>&- &
  runner=$!
  eventually test -e "$heard.trapped"

  kill -TERM "$runner"

  assert_exits 9 "$runner"
  assert_heard told
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

@test "--on-failure runs if the lock is lost on a server, after the command has ended" {
  use_server_as_store
  dlock run "${hooks[@]}" --ttl 3s job -- sleep 600 3>&- &
  eventually is_held job

  kill -STOP "$server_pid"

  assert_exits 76 $!
  assert_heard failure
}

@test "with any small number of descriptors, a hook runs or causes a warning, and the exit code stays" {
  for limit in {8..40}; do
    output=$(timeout -s KILL 20 prlimit --nofile="$limit" "$(type -P dlock)" run \
      --on-success 'echo hook' job -- sh -c 'echo ran' 2>&1) && status=0 || status=$?
    [[ $output == *ran* ]] || continue
    echo "with $limit descriptors: $output"
    assert_status 0
    [[ $output == *hook || $output == *'--on-success command could not be started: '* ]]
  done
  assert_equal "$output" $'ran\nhook'
}

# --- --on-start ---

# The command waits for the hook, so this would not end if the hook did not run beside it.
beside=(sh -c 'echo "$DLOCK_RUN_ID" > "$heard.run"; until test -s "$heard"; do sleep 0.01; done; exit 3')

@test "--on-start runs beside the command, with the report as far as it is known" {
  for store in "$DLOCK_STORE" server; do
    [[ $store != server ]] || use_server_as_store
    rm -f "$heard"

    run dlock run --on-start 'cat > "$heard.in"; mv "$heard.in" "$heard"' \
      --on-failure 'cat > "$heard.after"; echo "$DLOCK_RUN_ID" > "$heard.id"' \
      --report "$heard.report" job -- timeout 10 "${beside[@]}"

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
    [[ $(json .run_id) =~ ^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$ ]]
  done
}

@test "a nested run has its own run id" {
  dlock run outer -- sh -c 'echo "$DLOCK_RUN_ID" > "$heard"; dlock run inner -- sh -c "echo \$DLOCK_RUN_ID >> \"\$heard\""'

  assert_equal "$(sort -u "$heard" | wc -l)" 2
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

@test "an --on-start that fails is a warning, and does not change the exit code" {
  run dlock run --on-start 'exit 4' job -- sh -c 'exit 3'

  assert_status 3
  assert_one_line
  assert_output_contains 'the --on-start command ended with exit code 4'
}

@test "what stops the command and its stragglers does not end --on-start, nor what that leaves behind" {
  for store in "$DLOCK_STORE" server; do
    [[ $store != server ]] || use_server_as_store
    rm -f "$heard"*
    for what in 'wait' 'kill'; do
      run timeout 10 dlock run --timeout 1s --stragglers "$what" \
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
  start_beside sh -c 'trap ": > \"$heard.told\"" TERM; while :; do sleep 0.1; done'
  kill -TERM "$runner"
  eventually test -e "$heard.told"
  kill -0 "$hook"

  kill -KILL "$runner"

  assert_exits 137 "$runner"
  eventually has_ended "$hook"
}
