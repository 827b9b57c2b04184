#!/usr/bin/env bats
# A run on a server is lost if its lease did not hold to its end, however late dlock detects
# that. Here mostly the release detects it, because the command ends before the next renewal.

setup() {
  load support
  load ../faults/redis
  use_redis_store
  export redis_socket report=$BATS_TEST_TMPDIR/report
  export -f redis
}

# Shell lines by which a command ends the lease that it runs under.
taken_over='redis SET "dlock:{job}" other PX 60000 > /dev/null'
deleted='redis DEL "dlock:{job}" > /dev/null'
wiped='redis FLUSHALL > /dev/null'
broken='dlock break --yes job 2> /dev/null 3>&- & until dlock status job | grep -q broken; do :; done'

# Runs a shell line under `job`.
run_job() {  # <shell> [<option>...]
  run dlock run "${@:2}" --report "$report" job -- bash -c "$1"
}

# Asserts that the run was lost for that reason, that the report has the end of its command,
# and that one line reports the loss.
assert_lost() {  # <reason> [<exit code or signal of the command>]
  assert_status 76
  assert_lost_in_report "$@"
  assert_one_line
  assert_output_contains "job: lost the lock before the command ended: "
}

assert_lost_in_report() {  # <reason> [<exit code or signal of the command>]
  assert_equal "$(jq -r '"\(.outcome) \(.reason) \(.protected) \(.exit_code // .signal)"' "$report")" \
    "lost $1 false ${2:-0}"
}

# --- How a lease is lost ---

@test "a run whose server was restarted without its data is lost" {
  hold job --report "$report" 2> "$said"

  restart_redis
  let_go

  assert_exits 76 "$holder"
  assert_lost_in_report gone
}

# --- How the run ends ---

@test "the report of a run that was stopped because of the loss has the signal of the command, unless its guardian was killed" {
  hold job --report "$report" --ttl 2s --store-timeout 500ms 2> "$said"

  redis DEL 'dlock:{job}'

  assert_exits 76 "$holder"
  assert_lost_in_report gone TERM

  redis FLUSHALL
  run_job "$deleted; kill -KILL \$PPID; sleep 60"

  assert_status 76
  assert_equal "$(jq -r '"\(.outcome) \(.reason) \(.protected)"' "$report")" 'lost gone false'
}

@test "with --reclaim a run that ends before its lease is created again is not lost, unless another program has taken the lock" {
  run_job "$deleted" --reclaim

  assert_status 0
  assert_equal "$(jq -r '"\(.outcome) \(.protected)"' "$report")" 'ran true'
  is_free job

  run_job "$taken_over" --reclaim

  assert_lost 'taken over'
}

@test "a run whose end dlock notices only after the lease is over is lost" {
  hold job --report "$report" --ttl 4s --store-timeout 1s 2> "$said"
  kill -STOP "$holder"
  let_go
  eventually has_ended "$command"

  never_within 4200 false
  kill -CONT "$holder"

  assert_exits 76 "$holder"
  assert_lost_in_report unconfirmed
}

delete_lease() { [[ $(redis DEL 'dlock:{job}') == 1 ]]; }

@test "a command does not start if its lease is lost before" {
  export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # LeakSanitizer does not work under strace
  # The process that becomes the command is late in its group, for which dlock waits.
  strace -f -qq -o "$BATS_TEST_TMPDIR/trace" -e trace=setpgid -e inject=setpgid:delay_enter=2000000 \
    dlock run --ttl 2s --store-timeout 300ms --kill-after 0 --report "$report" job -- \
    touch "$ran" 2> "$said" 3>&- &
  holder=$!

  eventually delete_lease

  assert_exits 76 "$holder"
  assert_lost_in_report gone 76
  grep -qFx 'dlock: job: lost the lock (gone) before the command could start' "$said"
  [[ ! -e $ran ]]
}

# --- What is not a loss ---

@test "a run that cannot release its lock, or whose last renewal fails after the deadline, is not lost if it ended before" {
  hold job --report "$report" 2> "$said"

  stop_redis
  let_go

  assert_exits 0 "$holder"
  # The lease was not confirmed since it was renewed last.
  assert_equal "$(jq -r '"\(.outcome) \(.protected)"' "$report")" 'ran false'

  start_redis
  rm "$report"
  # With these times, a renewal fails 6.5 s after the grant, and the next one is in progress for 3.5 s.
  # The deadline is at 9 s.
  hold job --ttl 9s --store-timeout 3500ms --kill-after 0 --report "$report" 2> "$said"
  redis_freezes
  known=$(connections)
  eventually has_more_connections
  let_go

  assert_exits 0 "$holder"
  assert_equal "$(jq -r '"\(.outcome) \(.protected)"' "$report")" 'ran false'
}

# Prints how many connections the server has, also those that it has not accepted yet.
connections() { grep -c " $redis_socket\$" /proc/net/unix; }
has_more_connections() { (($(connections) > known)); }

# --- What is recorded ---

@test "a run whose key was overwritten or deleted, or whose server was emptied, is lost, in slots and shared as well" {
  run_job "$deleted"
  assert_lost gone
  run_job "$wiped"
  assert_lost gone
  run_job "$taken_over"
  assert_lost 'taken over'
  assert_equal "$(redis GET 'dlock:{job}')" other

  redis FLUSHALL
  for kind in --shared --slots=2; do
    run_job "$deleted" "$kind"
    assert_lost gone
    run_job "$broken" "$kind"
    assert_lost broken
    assert_output_contains ": $(id -un)@$(uname -n) took the lock with dlock break"
    eventually is_free job
    run_job "$taken_over" "$kind"
    assert_lost 'taken over'
    redis FLUSHALL
  done

  redis FLUSHALL
  run_job "$deleted" --lock-delay 60s

  assert_lost gone
  is_free job

  redis FLUSHALL
  load watching
  watch job

  run_job "$deleted"

  eventually has_seen 'lost job 1'
  grep -q 'lost (gone)' <<< "$(jq -r 'select(.event == "lost").message' "$seen")"
}

# --- How soon a loss is detected ---

@test "a run detects that the server was emptied within a third of the TTL and one attempt" {
  for name in 1 2 3; do
    hold "job-$name" --ttl 9s --report "$report.$name" 2> "$said.$name"
    holders+=("$holder")
    never_within 250 false  # so that they are renewed at different moments
  done

  redis FLUSHALL
  begin=$(now_ms)
  eventually all_have_ended "${holders[@]}"

  # in time: 3 s, 900 ms, and what a busy machine takes; the lease would end after 6 s or more.
  assert_between $(($(now_ms) - begin)) 0 5900
  assert_equal "$(jq -r .reason "$report".* | sort -u)" gone
}

all_have_ended() {
  local pid
  for pid; do has_ended "$pid" || return 1; done
}
