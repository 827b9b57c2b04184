#!/usr/bin/env bats
# --on-outage: what happens to a run when its store cannot be reached.

setup() { load ../bats/support && load redis && use_redis_store; }

lease=(--ttl 2s --store-timeout 400ms)

# Holds `job` with --on-outage run. Writes the messages of dlock to a file.
hold_on() {
  hold job "${lease[@]}" --on-outage run --report "$report" 2> "$said"
}

says() { grep -q "$1" "$said"; }

assert_report() {  # <outcome> <reason> <exit code> <protected>
  assert_equal "$(jq -r '"\(.outcome) \(.reason) \(.exit_code) \(.protected)"' "$report")" "$1 $2 $3 $4"
}

# Asserts that the output is one warning and then the command's output.
assert_ran_with_warning() {  # <text of the warning>
  assert_equal "${#lines[@]}" 2
  [[ ${lines[0]} == 'dlock: job: warning: '*"$1"* && ${lines[1]} == ran ]]
}

# --- Several locks ---

@test "the locks of --also are given back to a silent server within one store timeout" {
  dlock run --store-timeout 1s --report "$report" db --also a --also b --also c --also d --also e -- \
    sh -c 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 60' "$BATS_TEST_TMPDIR/began" 2> "$said" 3>&- &
  holder=$!
  eventually test -e "$BATS_TEST_TMPDIR/began"
  redis_freezes
  began=$(now_ms)
  kill "$(< "$BATS_TEST_TMPDIR/began")"

  assert_exits 143 "$holder"

  # One after the other they would take six seconds.
  assert_between $(($(now_ms) - began)) 900 5900
  assert_equal "$(grep -c 'cannot release the lock: .*did not reply within' "$said")" 6
  # The leases were not confirmed since they were renewed.
  assert_equal "$(jq -r '"\(.outcome) \(.protected)"' "$report")" 'ran false'
}

@test "a run whose release gets no reply was not certainly protected, and one whose release does was" {
  for silent in 1 0; do
    hold job --ttl 30s --store-timeout 1s --report "$report" 2> "$said"
    ((silent == 0)) || redis_freezes
    let_go
    assert_exits 0 "$holder"
    redis_goes_on
    assert_equal "$(jq -r '"\(.outcome) \(.protected) \(.exit_code)"' "$report")" "ran $([[ $silent == 0 ]] && echo true || echo false) 0"
    redis FLUSHALL > /dev/null
  done
}

# --- Before the command ---

@test "--on-outage run starts the command without a server, after --wait, and warns in one line" {
  stop_redis
  begin=$(now_ms)

  run dlock run --wait 500ms --on-outage run --report "$report" job -- sh -c 'echo ran; exit 3'

  assert_status 3
  (($(now_ms) - begin >= 500))
  assert_ran_with_warning 'running without the lock'
  assert_report ran null 3 false
  [[ $(jq -r .message "$report") == *'running without the lock'* ]]
  assert_equal "$(jq .fence "$report")" null
}

@test "--on-outage run does not start the command while the lock is held, or if the login is refused" {
  hold job
  run dlock run --on-outage run job -- echo ran
  assert_status 75
  refute_output_contains ran

  redis ACL SETUSER dlock off
  run dlock run --on-outage run job -- echo ran
  assert_status 77
  refute_output_contains ran
}

@test "--on-outage run starts the command when the store on this machine is not there for the moment" {
  export DLOCK_STORE=local:$BATS_TEST_TMPDIR/store
  dlock run any -- true
  perl -MFcntl -e '
    my $gate = pack "s s x4 q q l x4", F_WRLCK, 0, 1 << 62, 0, 0;
    open my $sessions, "+<", shift or die;
    fcntl $sessions, F_SETLK, $gate or die;
    open my $taken, ">", shift;
    sleep 60' "$BATS_TEST_TMPDIR/store/sessions" "$BATS_TEST_TMPDIR/taken" 3>&- &
  eventually test -e "$BATS_TEST_TMPDIR/taken"

  run dlock run --store-timeout 200ms --on-outage run job -- echo ran

  assert_status 0
  assert_ran_with_warning 'running without the lock'
}

@test "a script that starts itself under its lock with --on-outage run ends with 69" {
  script=$BATS_TEST_TMPDIR/script
  printf '#!/bin/sh\necho started >> "%s"\ndlock check job 2> /dev/null || exec dlock run --on-outage run job -- "$0"\necho worked\n' \
    "$BATS_TEST_TMPDIR/starts" > "$script"
  chmod +x "$script"
  stop_redis

  run timeout 60 "$script"

  assert_status 69
  refute_output_contains worked
  assert_output_contains 'the run around this one goes on without this lock already'
  assert_equal "$(wc -l < "$BATS_TEST_TMPDIR/starts")" 2
  # Another lock is another matter.
  run dlock run -q --on-outage run job -- dlock run -q --on-outage run other -- echo ran
  assert_equal "$status $output" '0 ran'
}

@test "a command without the lock gets no fence, not even an outer one" {
  stop_redis

  run env DLOCK_FENCE=7 DLOCK_SLOT=0 dlock run -q --on-outage run job -- \
    sh -c 'echo "${DLOCK_FENCE-none} ${DLOCK_SLOT-none} $DLOCK_NAME"'

  assert_equal "$output" 'none none job'
}

@test "a signal while the server is silent starts nothing with --on-outage run" {
  redis_freezes
  dlock run --store-timeout 5s --on-outage run job -- touch "$said" 3>&- &
  holder=$!
  eventually test -e "/proc/$holder/fd/7"

  kill -TERM "$holder"

  assert_exits 143 "$holder"
  [[ ! -e $said ]]
}

# --- While it runs ---

@test "--on-outage run lets the command go on beyond its lease, and warns once" {
  hold_on
  redis_freezes

  eventually says 'continues unprotected'
  never_within 1500 has_ended "$command"
  let_go

  assert_exits 0 "$holder"
  assert_equal "$(grep -c 'continues unprotected' "$said")" 1
  assert_report ran null 0 false
}

@test "with --on-outage run a lock that was lost in the outage is warned about, and reported" {
  hold_on
  stop_redis
  eventually says 'continues unprotected'

  start_redis
  eventually says 'was lost during a store outage'
  let_go

  assert_exits 0 "$holder"
  assert_report ran gone 0 false
}

@test "with --on-outage run a dlock that is stopped after an outage leaves no command behind its lease" {
  use_relay
  lease=(--ttl 4s --store-timeout 1s)
  hold_on
  network drop
  # For as long as dlock does not reach the server.
  redis PEXPIRE 'dlock:{job}' 600000
  # The guardian does nothing at the moment at which it would have ended the command.
  never_within 4500 has_ended "$command"
  network forward
  eventually has_short_lease

  kill -STOP "$holder"

  eventually is_free job
  has_ended "$command"
}

has_short_lease() { (($(left_of job) <= 4000)); }

# --- What is known of it ---

@test "a run that an outage ended is not vanished in history and status on its machine" {
  use_private_mounts
  inside mount -t tmpfs none /var/lib
  inside "$DLOCK_BIN" run "${lease[@]}" job -- sh -c ': > "$0"; exec sleep 60' "$BATS_TEST_TMPDIR/began" 2> "$said" 3>&- &
  holder=$!
  eventually test -e "$BATS_TEST_TMPDIR/began"
  redis_freezes
  assert_exits 76 "$holder"
  redis_goes_on
  eventually has_vanished

  for verb in history 'history --failed --since 1h' status; do
    # shellcheck disable=SC2086
    run inside "$DLOCK_BIN" $verb job
    assert_output_contains 'lost (unconfirmed), exit 76'
  done
  run inside "$DLOCK_BIN" history job --json
  assert_equal "$(json '.[0] | "\(.outcome) \(.reason) \(.exit_code) \(.duration_ms > 0)"')" 'lost unconfirmed 76 true'
  # A later run is not that one, nor is one of another store or namespace.
  run inside "$DLOCK_BIN" run job -- true
  run inside "$DLOCK_BIN" history job --limit 1
  assert_output_contains 'exit 0'
  assert_equal "$(from_outside /var/lib/dlock/missed-ends/runs.jsonl | xargs stat -c '%a %U')" '600 root'
}

has_vanished() { dlock history job | grep -q vanished; }
