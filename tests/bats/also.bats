#!/usr/bin/env bats
# --also: a command under several locks. On a server these tests also run with a guardian and
# leases that expire (DLOCK_TEST_STORE).
# shellcheck disable=SC2086  # words

setup() {
  load support
  use_private_store
  slots=4
  [[ $DLOCK_STORE != *quorum* ]] || slots=1 # it has no others
}

assert_reported() { assert_equal "$(jq -r "$1" "$report")" "$2"; }  # <jq filter> <expected>

# Runs a command under db and cache in the background, and waits until it runs. Sets $holder
# to the pid of its dlock.
hold_both() {  # [<option>...]
  dlock run "$@" db --also cache -- sh -c 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec sleep 60' \
    "$began" 2> "$said" 3>&- &
  holder=$!
  eventually test -e "$began"
}

# --- What the command gets ---

@test "the command has the variables of the first lock, and the fences and slots of all, but of no outer run" {
  run dlock run db --also 'cache a=b' --also jobs:x: -- \
    sh -c 'echo "$DLOCK_NAME"; echo "$DLOCK_FENCES"; [ "$DLOCK_FENCES" = "$DLOCK_HELD" ]
      dlock list --json | jq -r ".[].holders[0].fence" | paste -sd " "
      echo "$DLOCK_FENCE"; dlock check && dlock check "cache a=b" && echo held'
  assert_status 0
  read -r cache db jobs <<< "${lines[2]}"
  assert_equal "${lines[0]} ${lines[4]}" 'db held'
  assert_equal "${lines[1]}" "db=$db cache%20a%3Db=$cache jobs:x=$jobs"
  assert_equal "${lines[3]}" "$db"

  # Without a lock there is neither.
  run dlock run outer -- dlock run --store redis://127.0.0.1:1 --on-outage run -q job -- sh -c 'echo "[$DLOCK_FENCES][$DLOCK_SLOTS]"'
  assert_equal "$output" '[][]'
  run dlock run outer --on-success 'echo "[$DLOCK_SLOTS]"' -- true
  assert_equal "$output" '[]'

  [[ $DLOCK_STORE != *quorum* ]] || return 0 # it has no slots
  # A number of 1 counts, if it is set; the default does not.
  run dlock run --also 'g p:slots=1' --also db --also config:shared -n 9 ports -- printenv DLOCK_SLOTS
  assert_equal "$output" 'ports=0 g%20p=0'
  dlock run -n 3 gpu -- env DLOCK_HELD= dlock run -n 9 --also gpu:slots=3 ports -- printenv DLOCK_SLOTS DLOCK_SLOT > "$BATS_TEST_TMPDIR/both"
  assert_equal "$(paste -sd " " "$BATS_TEST_TMPDIR/both")" 'ports=0 gpu=1 0'
  run dlock run -n 2 job --also other -- dlock run outer -- sh -c 'echo "$DLOCK_FENCES [${DLOCK_SLOTS?}]"; echo "outer=$DLOCK_FENCE []"'
  assert_equal "${lines[0]}" "${lines[1]}"
}

# --- All or none ---

@test "all locks are held while the command runs, and freed in the reverse order, whatever was typed" {
  dlock run db --also cache --also "gpu:slots=$slots" --also config:shared --label nightly -- \
    sh -c 'dlock list --json > "$0"' "$began"
  assert_equal "$(jq -r '.[] | "\(.name) \(.mode) \(.slots) \(.holders[0].label)"' "$began" | paste -sd ,)" \
    'cache exclusive 1 nightly,config shared 1 nightly,db exclusive 1 nightly,gpu exclusive '"$slots nightly"
  assert_equal "$(dlock list --json | jq -r '.[] | "\(.name) \(.state) \(.last_run.outcome)"' | paste -sd ,)" \
    'cache free ran,config free ran,db free ran,gpu free ran'

  for names in 'b --also a --also c' 'c --also b --also a'; do
    run dlock run -v $names -- true
    assert_equal "$(sed -nE 's/^dlock: (.*: )?([abc]): released$/\2/p' <<< "$output" | paste -sd ' ')" 'c b a'
  done
}

@test "if one is held the command does not start, the message names it, and the others are free" {
  for name in a z; do
    hold "$name"
    run dlock run db --also "$name" --report "$report" -- touch "$began"

    assert_message 75 "dlock: db: $name: held by "
    refute test -e "$began"
    is_free db
    assert_reported '"\(.outcome) \(.holder.pid) \(.message[:11]) \(.locks | length)"' \
      "busy $holder $name: held by  2"
    let_go
  done
}

@test "runs that name the same locks in another order never wait for each other for good" {
  # Each command removes a file that only one of them can create.
  for order in 'a --also b' 'b --also a' 'b --also a --also c' 'c --also b'; do
    for _ in 1 2 3 4 5; do
      dlock run --wait 60s $order -- \
        sh -c 'set -C; : > "$0/alone" && echo >> "$0/runs" && rm "$0/alone"' "$BATS_TEST_TMPDIR" 3>&- &
      runs+=($!)
    done
  done

  for pid in "${runs[@]}"; do assert_exits 0 "$pid"; done
  assert_equal "$(wc -l < "$BATS_TEST_TMPDIR/runs")" 20
}

@test "--wait is for all locks together" {
  hold a
  hold b
  first=$holder
  begin=$(now_ms)

  run dlock run --wait 3s a --also b -- touch "$began"

  assert_status 75
  # in time: a wait for each lock would be six seconds
  assert_between $(($(now_ms) - begin)) 3000 5900
  let_go "$first"
}

@test "a run waits for each lock in turn" {
  hold a
  first=$holder
  hold b
  dlock run --wait 60s b --also a -- touch "$began" 3>&- &
  waiter=$!
  eventually is_queued a "$waiter"
  let_go "$first"
  eventually is_queued b "$waiter"
  refute test -e "$began"
  let_go

  assert_exits 0 "$waiter"
  test -e "$began"
}

@test "while it waits for the second, the lease of the first is renewed" {
  use_server_as_store
  hold b
  dlock run --wait 60s --ttl 6s a --also b -- touch "$began" 3>&- &
  waiter=$!
  eventually is_queued b "$waiter"
  fence=$(look a '.holders[0].fence')

  await_longer_lease a
  assert_equal "$(look a '.holders[0].fence')" "$fence"
  let_go

  assert_exits 0 "$waiter"
}

@test "a signal while it waits for the second gives the first back at once" {
  hold b
  dlock run --wait 60s --report "$report" a --also b -- touch "$began" 3>&- &
  waiter=$!
  eventually is_queued b "$waiter"

  kill -TERM "$waiter"

  assert_exits 143 "$waiter"
  is_free a
  nobody_waits b
  assert_reported '"\(.outcome) \([.locks[].fence] | tostring)"' 'interrupted [null,null]'
}

@test "a first lock that is taken while it waits for the second ends the wait with 76" {
  hold b
  dlock run --wait 60s --report "$report" a --also b -- touch "$began" 2> "$said" 3>&- &
  waiter=$!
  eventually is_queued b "$waiter"

  dlock break --yes a

  assert_exits 76 "$waiter"
  is_free a
  grep -q '^dlock: a: lost the lock (broken) before the command could start: ' "$said"
  assert_reported '"\(.outcome) \(.reason) \(.locks[0].reason) \(.locks[1].reason)"' 'lost broken broken null'
}

# --- Losses ---

@test "break of any of them stops the command, and message, report and history say which" {
  for name in cache db; do
    rm -f "$began"
    hold_both --report "$report" --label "$name"

    dlock break --yes "$name"

    assert_exits 76 "$holder"
    has_ended "$(< "$began")"
    about=$([[ $name == db ]] || echo "$name: ")
    grep -q "^dlock: db: ${about}lost the lock: .* with dlock break; the command was stopped" "$said"
    assert_reported '"\(.outcome) \(.reason) \(.protected)"' 'lost broken false'
    assert_reported '.locks[] | select(.reason) | "\(.name) \(.reason)"' "$name broken"
    assert_equal "$(dlock history --json --limit 2 | jq -r '.[].outcome' | paste -sd ' ')" 'lost lost'
  done
}

@test "if dlock is killed, the command ends before another run gets any of the locks" {
  hold_both --ttl 2s
  pid=$(< "$began")
  dlock run --wait 60s cache -- sh -c 'grep -q "^State:.*[SR]" "/proc/$0/status" && echo overlaps' "$pid" > "$began.next" 3>&- &
  waiter=$!
  eventually is_queued cache "$waiter"

  kill -KILL "$holder"
  # On this machine alone, nothing stops the command, and the locks stay with it.
  [[ $DLOCK_STORE != local:* ]] || { kill -0 "$pid" && is_held db && is_held cache && kill -KILL "$pid"; }

  wait "$waiter" || true
  assert_equal "$(< "$began.next")" ''
  has_ended "$pid"
}

# --- With other options ---

@test "--dedupe is of the first lock, and does not wait for the others" {
  dlock run --dedupe 1h db --also a --also z -- true
  hold a

  run dlock run --dedupe 1h --wait 60s -v db --also a -- touch "$began"
  assert_status 0
  assert_output_contains 'skipped: it ran on '
  let_go
  eventually is_free a

  hold db --also a
  run dlock run --dedupe 1s -v db --also a -- touch "$began"
  assert_status 0
  refute test -e "$began"
}

@test "whether --dedupe skips is asked without taking the lock, before the others are held" {
  hold a

  run dlock run --dedupe 1h db --also a -- touch "$began"

  assert_status 75
  assert_output_contains 'dlock: db: a: held by '
  run dlock status db
  assert_output_contains 'never used'
}

@test "--min-hold keeps all of them, and --replace takes all" {
  dlock run --min-hold 60s db --also cache -- true
  is_held db
  is_held cache

  hold a
  first=$holder
  hold b
  dlock run --replace --wait 60s b --also a -- touch "$began"
  assert_exits 76 "$first"
  assert_exits 76 "$holder"
}

@test "a hook has the name of the first, and all locks in the report" {
  hold cache

  run dlock run --on-busy 'echo "$DLOCK_NAME $DLOCK_FENCES$(jq -c "[.locks[].name]")"' db --also cache -- true

  assert_status 75
  assert_output_contains 'db ["db","cache"]'
}

# --- Nested runs ---

@test "a lock that an outer run holds is refused at once, even behind one that is held, unless both share it" {
  hold a
  run timeout 60 dlock run outer --also z -- dlock run --wait forever b --also a --also z -- touch "$began"
  assert_status 75
  assert_output_contains 'dlock: b: z: held by an outer run'
  refute test -e "$began"

  run dlock run outer --also z:shared -- dlock run b --also z:shared -- printenv DLOCK_FENCES
  assert_equal "$status $(sed -E 's/[0-9]+/N/g' <<< "$output")" '0 b=N z=N'
}

@test "--spread is of the locks with several slots: readers on a host share a lock" {
  if [[ $DLOCK_STORE == @(etcd|*quorum)* ]]; then
    run dlock run --slots 4 --spread --also cfg:shared gpu -- touch "$began"
    assert_status 78
    return
  fi
  dlock run --slots 4 --spread --also cfg:shared gpu -- sleep 60 3>&- &
  eventually dlock status gpu

  dlock run --slots 4 --spread --also cfg:shared gpu2 -- true

  # Even if only another lock than the first has several.
  run dlock run --spread --also gpu:slots=4 first -- true
  assert_status 75
  assert_output_contains 'gpu: held by '
  run dlock run --spread --also other first -- true
  assert_status 64
}

# --- The configuration file ---

@test "the file names them as a string or as a list, which may be empty, and an option takes its place" {
  assert_takes() {  # <names, first the run's> <argument>...
    run dlock run --wait 1s "${@:2}" -- printenv DLOCK_FENCES
    assert_equal "$(sed -E 's/=[0-9]+//g' <<< "$output")" "$1"
  }
  export DLOCK_CONFIG=$BATS_TEST_TMPDIR/config
  for also in '"x"' '["x"]'; do
    printf '[run]\nalso = ["a", "b:slots=%s"]\n[lock."job"]\nalso = %s\n' "$slots" "$also" > "$DLOCK_CONFIG"
    assert_takes 'job x' job
    assert_takes 'other a b' other
    assert_takes 'job y' --also y job
  done
  assert_equal "$(dlock config --json | jq -r '.settings[] | select(.setting == "run.also") | .value')" "a,b:slots=$slots"

  printf '[run]\nalso = ["a"]\n[lock."job"]\nalso = []\nsupersede = true\n' > "$DLOCK_CONFIG"
  assert_takes job job
  assert_takes 'other a' other
  run dlock run --wait 1s --supersede other -- touch "$began"
  assert_status 64
  assert_output_contains '--supersede and --also cannot be combined: put the run with --also into one with --supersede'
}
