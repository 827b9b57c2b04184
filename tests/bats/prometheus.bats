#!/usr/bin/env bats
# dlock list --prometheus: locks as metrics.
# shellcheck disable=SC1003,SC2089,SC2090,SC2086  # quotes and backslashes are meant as such

setup() {
  load support
  load metrics
  use_private_store
}

# --- The format ---

@test "the check of the format detects each kind of error" {
  local good='# HELP good_locks Text.
# TYPE good_locks gauge
good_locks{name="x",namespace="y"} 1'
  local output=$good
  assert_metrics

  local wrong
  for wrong in "${good/ gauge/ counter}" "${good#*$'\n'}" "$good"$'\n'"$good" "${good/\} 1/\} 1,5}" \
    "${good/Text/\\x}" "${good/name=\"x/name=\"\\x}" \
    "${good/name=\"x/name=\"\"x}" "${good/good_locks\{/bad_locks\{}" "${good/ 1/}" "${good%$'\n'*}" \
    "$good"$'\n'"${good##*$'\n'}" "${good/name=\"x/name=\"$'\xff'}"; do
    output=$wrong
    run_quietly assert_metrics && { echo "accepted: $wrong" >&2; return 1; }
  done
  true
}

run_quietly() { "$@" > /dev/null 2>&1; }

@test "metrics show holders, waiters, slots and last runs, with names and namespaces escaped and no color" {
  export DLOCK_NAMESPACE='n"s\'
  local name within='namespace="n\"s\\"} '
  for name in 'a"b' 'a\b' '{a="b"} 1' 'Übergröße'; do dlock run "$name" -- true; done
  dlock run bad -- sh -c 'exit 3' || true
  dlock run ended -- sh -c 'kill -TERM $$' || true
  hold job
  queue job -- true
  hold pool -n 3

  run dlock list --prometheus --color always

  assert_status 0
  assert_metrics
  for name in 'last_run_success{name="a\"b",'"$within"1 'last_run_success{name="a\\b",'"$within"1 \
    'last_run_success{name="{a=\"b\"} 1",'"$within"1 'last_run_success{name="Übergröße",'"$within"1 \
    'last_run_success{name="bad",'"$within"0 'last_run_exit_code{name="ended",'"$within"143 \
    'lock_holders{name="job",'"$within"1 'lock_waiters{name="job",'"$within"1 \
    'lock_slots{name="pool",'"$within"3 'lock_slots_free{name="pool",'"$within"2; do
    assert_output_contains "dlock_$name"
  done
  refute_output_contains 'last_run_success{name="job"'
  run dlock list --prometheus job
  refute_output_contains '{name="pool"'
}

@test "without locks, dlock_up is the only metric, and only list without --json has --prometheus" {
  run dlock list --prometheus
  assert_status 0
  assert_equal "${lines[*]:1}" '# TYPE dlock_up gauge dlock_up{namespace="dlock"} 1'
  for wrong in 'list --prometheus --json' 'status --prometheus job' '--prometheus list'; do
    run dlock $wrong
    assert_status 64
  done
}

@test "a store that does not reply is reported as down" {
  run bash -c 'dlock list --prometheus --store redis+unix:/nowhere 2> /dev/null'

  assert_status 69
  assert_metrics
  assert_equal "${lines[-1]}" 'dlock_up{namespace="dlock"} 0'
}

# --- Runs that did not get the lock ---

counts() {  # refused and superseded
  local output
  output=$(dlock list --prometheus)
  echo "$(metric dlock_runs_refused_total) $(metric dlock_runs_superseded_total)"
}

assert_counts() { [[ $(counts) == "$1" ]] || { echo "counts are $(counts), not $1" >&2; return 1; }; }

@test "the counters of another program's lock on a server expire" {
  use_server_as_store
  on_server() { redis-cli -s "${DLOCK_STORE#redis+unix:}" "$@"; }
  on_server SET 'dlock:{job}' other NX PX 60000

  run dlock run job -- true

  assert_status 75
  assert_counts '1 0'
  [[ $(on_server PTTL 'dlock:{job}:s') -gt 0 ]]
}

@test "metrics show how many recorded runs lost the lock, when the last did, and the longest wait" {
  dlock run job -- true
  run dlock list --prometheus
  assert_equal "$(metric dlock_lost_runs)" 0
  refute_output_contains dlock_last_loss
  refute_output_contains dlock_lock_longest_wait

  hold job
  queue job -- true
  run dlock list --prometheus
  assert_metrics
  awk -v is="$(metric dlock_lock_longest_wait_seconds)" 'BEGIN { exit !(is > 0 && is < 60) }'

  dlock break --yes job
  assert_exits 76 "$holder"
  assert_exits 0 "$waiter"
  run dlock list --prometheus
  assert_metrics
  assert_equal "$(metric dlock_lost_runs)" 1
  assert_equal "$(metric dlock_last_loss_timestamp_seconds | cut -d . -f 1)" \
    "$(date -d "$(dlock history job --json | jq -r '.[] | select(.outcome == "lost") | .ended')" +%s)"
}

@test "the manual lists exactly the metrics that exist" {
  dlock run damaged -- true
  truncate -s 20 "${DLOCK_STORE#local:}"/state-*/*.lock
  hold lost
  dlock break --yes lost
  assert_exits 76 "$holder"
  dlock run job -- true
  hold job
  queue job -- true

  run dlock list --prometheus

  assert_equal "$(sed -n 's/^# TYPE \(.*\) [a-z]*$/\1/p' <<< "$output" | sort)" \
    "$(sed -n 's/^\.It Li \(dlock_[a-z_]*\)$/\1/p' "$DLOCK_SOURCE/man/dlock-status.1" | sort)"
}
