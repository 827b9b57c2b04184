#!/usr/bin/env bats
# dlock history: the last runs of a lock, on every store.
# shellcheck disable=SC2086  # words

setup() {
  load support
  load ../faults/redis
  load watching
  use_redis_store
  stores=("local:$BATS_TEST_TMPDIR/store" "$DLOCK_STORE")
}

# Prints the result of a jq filter for each run of `job`, one per line.
runs() {  # <filter> [<option>...]
  dlock history --json "${@:2}" job | jq -r ".[] | $1"
}

# --- By hand ---

@test "--limit and the configuration file set how many runs are shown" {
  for code in {1..3}; do dlock run job -- sh -c "exit $code" || true; done
  assert_equal "$(runs .exit_code --limit 2)" $'3\n2'
  printf '[history]\nlimit = 1\n' > "$BATS_TEST_TMPDIR/config.toml"

  run dlock history --config "$BATS_TEST_TMPDIR/config.toml" --json job

  assert_equal "$(json 'map(.exit_code) | @csv')" 3
}

@test "the history of a lock on a server has a bounded size and expires" {
  for _ in {1..45}; do dlock run job -- true; done

  # Twenty are shown. Up to twenty more can be kept until they are dropped together.
  assert_between "$(redis LLEN 'dlock:{job}:r')" 20 40
  assert_between "$(redis PTTL 'dlock:{job}:r')" 2764800000 2864800000
}

# --- No runs, and errors ---

@test "history takes one round trip once the server knows the script" {
  dlock run job -- true
  dlock history job
  start_monitor "$BATS_TEST_TMPDIR/monitor"

  dlock history job

  assert_equal "$(told | grep -o '"[A-Z]*"' | sort -u | tr '\n' ' ')" '"EVALSHA" '
}

@test "without recorded runs history says so, prints nothing with -q and [] with --json, and creates no store" {
  for DLOCK_STORE in "${stores[@]}" none:; do
    run dlock history job
    assert_equal "$status $output" "0 dlock: job: no runs are recorded in $DLOCK_STORE"
    run dlock -q history job
    assert_equal "$status $output" '0 '
    run dlock history --json job
    assert_equal "$status $output" '0 []'
  done

  [[ ! -e $BATS_TEST_TMPDIR/store ]]
}

@test "damaged records are an error that names the file" {
  DLOCK_STORE=${stores[0]}
  dlock run job -- sh -c 'exit 77' || true
  file=$(echo "$BATS_TEST_TMPDIR"/store/state-*/*.lock)
  # Only in the record of a run does the outcome directly follow the host.
  perl -0777 -pi -e "s/\Q$(uname -n)\E\x03\0\0\0ran/$(uname -n)\x03\0\0\0rat/g" "$file"

  run dlock history job

  assert_status 78
  assert_output_contains "$file is damaged"
}

@test "a limit that is no positive number, and what --succeeded-within does not take, are usage errors" {
  set -f
  for wrong in '--limit=0 job' '--limit=-1 job' '--limit=x job' '--limit= job' 'a b' '--succeeded-within 1h' \
    '--succeeded-within 1h *' '--succeeded-within 1h job --failed' '--succeeded-within 1h job --since 1h' '--succeeded-within 1h job --mine'; do
    echo "$wrong"
    run dlock history $wrong

    assert_message 64
  done
}

# --- Filters ---

@test "--failed omits runs that succeeded, runs in progress and leases of acquire" {
  for DLOCK_STORE in "${stores[@]}"; do
    dlock run job -- true
    dlock run job -- sh -c 'exit 3' || true
    dlock run job -- sh -c 'kill -TERM $$' || true
    dlock release job --token "$(dlock acquire job)"
    hold job

    assert_equal "$(runs '"\(.exit_code) \(.signal)"' --failed)" $'null TERM\n3 null'
    assert_equal "$(runs '.signal' --failed --limit 1)" TERM
  done
}

@test "--host, --owner, --mine and --label choose runs" {
  needs_root
  for DLOCK_STORE in "${stores[@]}"; do
    dlock run --label nightly job -- true
    unshare --uts sh -c 'echo web1 > /proc/sys/kernel/hostname; exec dlock run --label once job -- false' || true
    dlock run job -- sh -c 'exit 3' || true

    assert_equal "$(runs .exit_code --host web1)" 1
    assert_equal "$(runs .exit_code --mine)" $'3\n0'
    assert_equal "$(runs .label --owner "$(id -un)")" $'null\nonce\nnightly'
    assert_equal "$(runs .exit_code --label 'n*t*')" 0
    assert_equal "$(runs .exit_code --owner stranger)" ''
  done
  # The label that the file gives to runs of a lock is not one to look for.
  printf '[lock.job]\nlabel = "fixed"\n[history]\nowner = "stranger"\n' > "$BATS_TEST_TMPDIR/config"
  assert_equal "$(runs .exit_code --config "$BATS_TEST_TMPDIR/config" --owner "$(id -un)")" $'3\n1\n0'
}

@test "--since omits runs that started earlier, and zero switches it off" {
  for DLOCK_STORE in "${stores[@]}"; do
    dlock run job -- true
    for filter in '--since 1h' '--since 0'; do
      assert_equal "$filter $(runs .exit_code $filter)" "$filter 0"
    done

    eventually none_since 300ms
  done
}

none_since() { [[ $(runs .exit_code --since "$1") == '' ]]; }

@test "--succeeded-within reports the last success and exits with 0 or 1" {
  for DLOCK_STORE in "${stores[@]}"; do
    run dlock history job --succeeded-within 1h
    assert_equal "$status $output" "1 job never succeeded in $DLOCK_STORE"

    dlock run job -- true
    dlock run job -- sh -c 'exit 3' || true
    run dlock history job --succeeded-within 1h
    assert_status 0
    [[ $output =~ ^'job succeeded '[^\ ]+' ago, at 20'.*'Z on '"$(uname -n)"$ ]]

    eventually is_too_long_ago 300ms
    run dlock history job --succeeded-within 300ms
    assert_status 1
    [[ $output =~ ^'job last succeeded '[^\ ]+' ago, at 20'.*', not within 300ms in '"$DLOCK_STORE"$ ]]
    run dlock -q history job --succeeded-within 300ms
    assert_equal "$status $output" '1 '
    run dlock history --json job --succeeded-within 1h
    assert_equal "$(json '"\(.name) \(.succeeded) \(.last_success.exit_code)"')" 'job true 0'
  done
}

is_too_long_ago() {
  ! dlock history job --succeeded-within "$1"
}

@test "--succeeded-within says what is in progress where there was no success, also with --nagios" {
  local nagios
  for DLOCK_STORE in "${stores[@]}"; do
    dlock run overdue -- true
    for name in first overdue; do
      hold "$name" --label 'the | night'
      queue "$name" -- true
      for nagios in '' --nagios; do
        run dlock history "$name" --succeeded-within 1ms $nagios
        assert_status $((${#nagios} > 0 ? 2 : 1))
        assert_equal "${#lines[@]}" 1
        [[ $output =~ "$DLOCK_STORE"'; now held by '"$(id -un)@$(uname -n)"' (pid '[0-9]+', the '(\||\\x7c)' night: sh '.*' for '[^\;]+'; 1 waits'(' | age='.*)?$ ]]
      done
      run dlock history "$name" --succeeded-within 1ms --nagios
      [[ ${output%% | *} != *'|'* ]]
      run dlock history "$name" --succeeded-within 1ms --json
      assert_equal "$(json '"\(.succeeded) \(.holders[0].pid) \(.waiters | length)"')" "false $holder 1"
      kill "$waiter"
      let_go
    done
  done
}

@test "--nagios answers as a plugin: exit code, words and performance data in one line" {
  for DLOCK_STORE in "${stores[@]}"; do
    run dlock history 'a|b' --succeeded-within 1h --nagios
    assert_equal "$status $output" "2 DLOCK CRITICAL - a\\x7cb never succeeded in $DLOCK_STORE | age=U;;3600;0"

    dlock run 'a|b' -- true
    run dlock -q history 'a|b' --succeeded-within 1h --nagios
    assert_status 0
    [[ $output =~ ^'DLOCK OK - a\x7cb succeeded '[^|]*' | age='[0-9.]+'s;;3600;0 duration='[0-9.]+'s;;;0'$ ]]

    eventually is_critical 'a|b' 300ms
  done
}

is_critical() {  # <lock> <span>
  local line code=0
  line=$(dlock history "$1" --succeeded-within "$2" --nagios) || code=$?
  [[ $code -eq 2 && $line =~ ^'DLOCK CRITICAL - '.*', not within 300ms in '.*' | age='[0-9.]+'s;;0.300;0 ' ]]
}

@test "--nagios answers UNKNOWN and 3 after any failure, in one line on standard output" {
  local wrong
  echo 'store = 3' > "$BATS_TEST_TMPDIR/wrong.toml"
  for wrong in 'job --store redis+unix:/nowhere --succeeded-within 1h' 'job' 'job --succeeded-within x' \
    '--succeeded-within 1h' 'job --succeeded-within 1h --json' 'job --succeeded-within 1h --oops' \
    "job --succeeded-within 1h --config $BATS_TEST_TMPDIR/wrong.toml"; do
    run_apart dlock history --nagios $wrong
    [[ "$status $stderr" == '3 ' && $output == 'DLOCK UNKNOWN - '* && ${#lines[@]} -eq 1 ]]
  done
}

@test "--nagios among the arguments of a command changes nothing" {
  run dlock run history false --nagios

  assert_equal "$status $output" '1 '
  status=0
  output=$(dlock run history /nowhere --nagios 2>&1) || status=$?
  assert_message 127
}

# --- For people ---

on_terminal() {  # <columns> <variable>...
  run env TERM=xterm "${@:2}" script -qec "stty cols $1; dlock history job" /dev/null
}

@test "a terminal gets color, not with NO_COLOR, and bars that it can show, if it is wide enough" {
  dlock run job -- sleep 0.05

  on_terminal 100 LC_ALL=C.UTF-8
  assert_output_contains $'\e[32mexit 0\e[0m'
  assert_output_contains '██████████'
  on_terminal 100 LC_ALL=C.UTF-8 NO_COLOR=1
  refute_output_contains $'\e[32m'
  assert_output_contains '██████████'
  on_terminal 100 LC_ALL=C
  assert_output_contains '##########'

  on_terminal 45 LC_ALL=C.UTF-8 NO_COLOR=1
  refute_output_contains '█'
  assert_output_contains 'exit 0'
  widest=$(printf '%s\n' "${lines[@]%$'\r'}" | wc -L)
  ((widest <= 45))
}
