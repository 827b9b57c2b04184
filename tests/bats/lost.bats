#!/usr/bin/env bats
# A run on local: is lost if its store's files were removed or replaced, or if its lease was
# broken, however short the run was: the lock may have been granted to others meanwhile. Here
# the release detects the loss, because nothing else has checked by then.

setup() {
  load support
  use_private_store
  export store=${DLOCK_STORE#local:} report=$BATS_TEST_TMPDIR/report
}

# Shell lines by which a command damages the store of its lock, or breaks its lease.
removed='until rm -rf "$store"; do :; done'
moved='mv "$store" "$store.old"'
replaced='mv "$store" "$store.old"; dlock run other -- true'
no_sessions='rm "$store/sessions"'
new_sessions='cp -p "$store/sessions" "$store/new"; mv "$store/new" "$store/sessions"'
no_state='until rm -rf "$store"/state-*; do :; done'
broken='dlock break --yes job 2> /dev/null 3>&- & until dlock status job | grep -q broken; do :; done'

# Runs a shell line under `job`. On a slow machine dlock may notice the loss while the command runs;
# then once more.
run_job() {  # <shell> [<option>...]
  for _ in 1 2 3 4 5; do
    run dlock run "${@:2}" --report "$report" job -- bash -c "$1"
    [[ $output == *'; the command was stopped' ]] || return 0
    remove "$store" "$store.old"
  done
}

# Asserts that the run was lost for that reason, that the report has the end of its command,
# and that one line reports the loss.
assert_lost() {  # <reason> [<exit code or signal of the command>]
  assert_status 76
  assert_equal "$(jq -r '"\(.outcome) \(.reason) \(.protected) \(.exit_code // .signal)"' "$report")" \
    "lost $1 false ${2:-0}"
  assert_one_line
  assert_output_contains "job: lost the lock before the command ended: "
}

past() { dlock history --json job | jq -r '.[] | "\(.outcome) \(.reason)"'; }

# --- How a lease is lost ---

@test "a run whose store, sessions or state were removed, moved or replaced is lost" {
  for loss in "$removed" "$moved" "$replaced" "$no_sessions" "$new_sessions" "$no_state"; do
    echo "after $loss"
    rm -rf "$store" "$store.old"
    run_job "$loss"
    assert_lost gone
  done
}

@test "a run is lost if another run was granted the lock meanwhile" {
  run_job "$no_state; $no_sessions; dlock run job -- true"

  assert_lost gone
}

@test "a broken run that ends before it is notified is lost, and the message says who broke it" {
  run_job "$broken"

  assert_lost broken
  assert_output_contains ": $(id -un)@$(uname -n) took the lock with dlock break"
  eventually is_free job
  assert_equal "$(past)" 'lost broken'
}

# --- How the run ends ---

@test "the report of a lost run has the command's own exit code or signal" {
  run_job "$removed; exit 3"
  assert_lost gone 3

  run_job "$removed; kill \$\$"
  assert_lost gone TERM
}

@test "a run that --timeout ends is lost if its lease was lost" {
  # On a slow machine the command may not come so far in time; the next one gets longer.
  for time in 500ms 10s; do
    run dlock run --timeout "$time" --report "$report" job -- bash -c "$removed; sleep 60"
    [[ $status == 124 ]] || break
  done

  assert_status 76
  assert_equal "$(jq -r '"\(.outcome) \(.reason) \(.protected) \(.signal)"' "$report")" \
    'lost gone false TERM'
}

@test "a run whose lease is lost while it waits for stragglers is lost" {
  run_job "(sleep 0.3; $removed) &" --stragglers wait

  assert_lost gone
}

@test "a run that kills its stragglers is lost if its lease was lost" {
  run_job "sleep 60 & $removed" --stragglers kill

  assert_lost gone
}

# --- What is not a loss ---

@test "a run whose dlock was stopped for longer than its TTL is not lost" {
  hold job --ttl 500ms --report "$report"
  kill -STOP "$holder"
  let_go
  eventually has_ended "$command"

  never_within 700 false
  kill -CONT "$holder"

  assert_exits 0 "$holder"
  assert_equal "$(jq -r '"\(.outcome) \(.protected)"' "$report")" 'ran true'
}

@test "the command of a limit is not lost with its store" {
  run dlock limit job 5/1h -- bash -c "$removed; exit 3"

  assert_status 3
}

# --- cache ---

@test "cache neither stores nor prints output of a run that was lost" {
  for loss in "$removed" "$no_sessions" "${broken// job/ cache:job}"; do
    rm -rf "$store" "$store.old"
    run dlock cache job -- bash -c "echo output; $loss"

    assert_message 76 'before the command ended'
    run dlock cache -w 60s job -- echo another
    assert_equal "$output" another
  done
}

@test "callers that wait for output do not use that of a run that was lost" {
  mkfifo "$ran"
  dlock cache job -- bash -c 'read -r _ < "$0"; echo first' "$ran" > "$ran.first" 2>&1 3>&- &
  first=$!
  eventually is_held cache:job
  dlock cache -w 60s job -- echo second > "$ran.second" 2>&1 3>&- &
  second=$!
  eventually is_queued cache:job "$second"

  (dlock break --yes cache:job 2> /dev/null 3>&-) &
  eventually is_broken
  # Without waiting for the command, which may have been stopped already.
  echo 1<> "$ran"

  assert_exits 76 "$first"
  assert_exits 0 "$second"
  assert_equal "$(< "$ran.second")" second
}

is_broken() { [[ $(dlock status cache:job) == *broken* ]]; }
