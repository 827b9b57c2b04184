#!/usr/bin/env bats
# --output: the command's output is kept until it fails, or goes to a file; and its last lines are
# told to reports and hooks.

setup() {
  load support
  use_private_store
  out=$BATS_TEST_TMPDIR/out
  err=$BATS_TEST_TMPDIR/err
  cd "$BATS_TEST_TMPDIR" || return
}

clean_up() {
  kill_leftovers
  [[ -z ${open:-} ]] || rm -rf "$open"
}

kept=(--output on-failure)

# Prints both kinds of bytes on both streams, without a newline at the end.
both=(sh -c 'printf "a\0b\377\n\nc"; printf "d\033[1m" >&2; exit "$1"' -)

tail_of() { jq -r .output_tail "$report"; }

@test "with --output on-failure, a command that succeeds prints nothing" {
  dlock run "${kept[@]}" job -- "${both[@]}" 0 > "$out" 2> "$err"

  assert_equal "$(cat "$out" "$err" | wc -c)" 0
}

@test "with --output on-failure, a command that fails prints each stream, byte for byte" {
  "${both[@]}" 0 > "$out.wanted" 2> "$err.wanted"
  for store in "$DLOCK_STORE" server; do
    [[ $store != server ]] || use_server_as_store

    dlock run "${kept[@]}" job -- "${both[@]}" 3 > "$out" 2> "$err" || [[ $? == 3 ]]

    cmp "$out" "$out.wanted"
    cmp "$err" "$err.wanted"
  done
}

@test "if both streams go to the same place, their order is exact" {
  run dlock run "${kept[@]}" job -- sh -c 'for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done; exit 3'

  assert_status 3
  assert_equal "$output" "$(for i in 1 2 3 4 5; do echo "o$i"; echo "e$i"; done)"
}

@test "with --output on-failure, a command that fails and prints nothing is told in one line" {
  run dlock run --output on-failure job false
  assert_status 1
  assert_equal "$output" 'dlock: job: the command exited with 1 and printed nothing'

  run dlock run --output on-failure job -- sh -c 'kill -TERM $$'
  assert_equal "$output" 'dlock: job: the command was killed by SIGTERM and printed nothing'

  # What says more is enough.
  run dlock run --output on-failure --timeout 100ms job sleep 60
  assert_message 124
  refute_output_contains nothing
  touch no-program
  run dlock run --output on-failure job ./no-program
  assert_message 126
  refute_output_contains nothing
  run dlock run --output on-failure job true
  assert_equal "$output" ''
  run dlock run --output log.txt job false
  assert_equal "$output" ''
}

@test "the output of a command that was lost, timed out or killed is printed" {
  run dlock run "${kept[@]}" --timeout 2s job -- sh -c 'echo said; exec sleep 600'
  assert_status 124
  assert_output_contains said
  run dlock run "${kept[@]}" job -- sh -c 'echo said; kill -KILL $$'
  assert_status 137
  assert_output_contains said

  dlock run "${kept[@]}" job -- sh -c 'echo said; : > ready; exec sleep 600' > "$out" 3>&- &
  eventually test -e ready
  dlock break --yes job
  assert_exits 76 $!
  assert_equal "$(< "$out")" said
}

@test "what is beyond --keep-output is left out in the middle, and counted" {
  run dlock run "${kept[@]}" --keep-output 100 job -- sh -c 'seq 1000; exit 3'

  assert_status 3
  assert_equal "$(tr -d '\n' <<< "$output")" \
    "$(seq 1000 | head -c 50 | tr -d '\n')dlock: job: left out 3793 bytes of the command's output here (--keep-output)$(seq 1000 | tail -c 50 | tr -d '\n')"
}

@test "what does not fit in memory is kept in a file without a name" {
  mkdir spool
  seq 400000 > wanted

  TMPDIR=$PWD/spool dlock run "${kept[@]}" --keep-output 3MiB job -- sh -c 'seq 400000; exit 3' > "$out" || [[ $? == 3 ]]
  cmp "$out" wanted
  assert_equal "$(ls -A spool)" ''

  # If there is no room for it, the rest is missing, and the exit code stays.
  TMPDIR=$PWD/nowhere dlock run "${kept[@]}" --keep-output 3MiB job -- sh -c 'seq 400000; exit 3' > "$out" 2> "$err" || [[ $? == 3 ]]
  cmp <(head -c 1048576 "$out") <(head -c 1048576 wanted)
  grep -q "^dlock: job: left out [0-9]* bytes of the command's output here (cannot keep them in $PWD/nowhere: No such file or directory)\$" "$err"
}

@test "a process that the command leaves behind does not keep dlock waiting" {
  for store in "$DLOCK_STORE" server; do
    [[ $store != server ]] || use_server_as_store
    for stragglers in leave kill; do
      run timeout 60 dlock run "${kept[@]}" --stragglers "$stragglers" job -- \
        sh -c 'echo said; sleep 600 3>&- & exit 3'
      assert_equal "$status $output" '3 said'
    done
  done
}

@test "with --stragglers wait, what the processes left behind print is kept" {
  run dlock run "${kept[@]}" --stragglers wait job -- sh -c '(sleep 0.1; echo late) & exit 3'

  assert_equal "$status $output" '3 late'
}

@test "an output that cannot be printed changes no exit code" {
  dlock run "${kept[@]}" job -- sh -c 'seq 100000; exit 3' 2> "$err" | head -n 1 > "$out" || [[ $? == 3 ]]
  assert_equal "$(cat "$out" "$err")" 1
  dlock run "${kept[@]}" job -- sh -c 'echo said; exit 3' 2> "$err" > /dev/full || [[ $? == 3 ]]
  assert_equal "$(< "$err")" "dlock: job: cannot print the command's output: No space left on device"
}

@test "the report and the hooks have the last twenty lines, printable" {
  dlock run "${kept[@]}" --report "$report" --on-failure 'cat > hook' job -- \
    sh -c 'seq 30; printf "bold \033[1m\t\377\n" >&2; exit 3' > /dev/null 2>&1 || [[ $? == 3 ]]

  assert_equal "$(tail_of)" "$(seq 12 30; printf '%s\n' 'bold \x1b[1m\t\xff')"
  cmp "$report" hook
  dlock run --report "$report" job -- echo said
  assert_equal "$(tail_of)" null
}

@test "--output FILE appends to a file as a shell would, and reports have its last lines" {
  echo before > log.txt
  umask 027

  for file in log.txt ./new; do
    dlock run --output "$file" --report "$report" job -- sh -c 'echo one; echo two >&2; exit 3' > "$out" 2> "$err" || [[ $? == 3 ]]
    assert_equal "$(cat "$out" "$err")" ''
    assert_equal "$(tail_of)" $'one\ntwo'
  done

  assert_equal "$(< log.txt)" $'before\none\ntwo'
  assert_equal "$(stat -c %a new)" 640
}

@test "the report of a run that waited has its own last lines, not those of the run before it" {
  dlock run --output ./log job -- sh -c 'until [ -e ended ]; do sleep 0.05; done; echo before' 3>&- &
  eventually dlock status job
  dlock run --wait 30s --output ./log --report "$report" job -- sh -c 'exit 3' 3>&- &
  waiter=$!
  eventually has_waiter

  touch ended

  assert_exits 3 "$waiter"
  assert_equal "$(tail_of)" ''
}

@test "a log that is renamed while dlock waits is written anew" {
  for store in local redis; do
    [[ $store == local ]] || use_server_as_store
    dlock run job -- sh -c 'until [ -e ended ]; do sleep 0.05; done' 3>&- &
    eventually dlock status job
    dlock run --wait 30s --output ./log --report "$report" job -- sh -c 'echo new; exit 3' 3>&- &
    waiter=$!
    eventually has_waiter
    mv log log.1

    touch ended

    assert_exits 3 "$waiter"
    assert_equal "$(cat log) $(cat log.1) $(tail_of)" 'new  new'
    rm ended log
  done
}

@test "if the kernel lets only root look at dlock, a renamed log gets the output with a warning, and not in silence" {
  ((EUID == 0)) || skip 'only root can arrange this'
  local port
  port=$(free_ports 1)
  redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$PWD" > server.log 2>&1 3>&- &
  eventually accepts_connections "$port"
  open=$(mktemp -d "${BATS_TMPDIR:-/tmp}/dlock-output.XXXXXX")
  install -d -m 777 "$open/logs"
  chmod 711 "$open"
  # A program that can be executed and not read.
  install -m 711 "$(realpath "$DLOCK_BIN")" "$open/dlock"
  export DLOCK_STORE=redis://127.0.0.1:$port
  dlock run job -- sh -c 'until [ -e ended ]; do sleep 0.05; done' 3>&- &
  eventually dlock status job
  setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/ "$open/dlock" run --wait 60s --output "$open/logs/log" job -- echo new \
    2> "$err" < /dev/null 3>&- &
  waiter=$!
  eventually has_waiter
  mv "$open/logs/log" "$open/logs/log.1"

  touch ended

  assert_exits 0 "$waiter"
  assert_equal "$(cat "$open/logs/log.1")" new
  grep -q 'the output goes to the file of that name that was opened first' "$err"
}

@test "if a renamed log cannot be opened again, a warning says so, and the renamed one gets the output" {
  dlock run job -- sh -c 'until [ -e ended ]; do sleep 0.05; done' 3>&- &
  eventually dlock status job
  mkdir logs
  dlock run --wait 30s --output logs/log job -- sh -c 'echo new; exit 3' 2> "$err" 3>&- &
  waiter=$!
  eventually has_waiter
  mv logs old

  touch ended

  assert_exits 3 "$waiter"
  assert_equal "$(< old/log)" new
  output=$(but_for_wait "$err")
  assert_one_line
  assert_equal "$output" 'dlock: job: cannot write the output to logs/log: No such file or directory; the output goes to the file of that name that was opened first, before it was renamed or removed'
}

has_waiter() { dlock status --json job | grep -q '"waiters":\[{'; }

@test "what a command leaves behind gets SIGPIPE after the run, even while a hook runs" {
  dlock run "${kept[@]}" --on-start 'for i in $(seq 1000); do [ ! -e died ] || exit; sleep 0.01; done; touch in_vain' job -- \
    bash -c '(while [[ -e /proc/$$ ]]; do sleep 0.01; done; yes; touch died) &'

  [[ -e died && ! -e in_vain ]]
}

@test "a file of --output that cannot be written is an error before anything runs" {
  for file in no/such/file . ./; do
    run dlock run --output "$file" job -- touch ran
    assert_message 78 'cannot write the output to '
  done
  refute_exists() { [[ ! -e $1 ]]; }
  refute_exists ran
}

@test "an output that is none, and --keep-output without it, exit with 64" {
  for words in '--output on-fail' '--output file' '--output -' '--output' '--keep-output 1MiB' \
    '--output ./x --keep-output 1MiB' '--output on-failure --keep-output 0' '--output on-failure --keep-output much'; do
    # shellcheck disable=SC2086
    run dlock run $words job -- touch ran
    assert_message 64
  done
}
