#!/usr/bin/env bats
# How dlock exits: as the command did, or with a code that says why the command did not run.
# Afterwards the lock is free.

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

# For each line of shell, prints how dlock ends that runs it, as wait(2) reports it, which is more than
# a shell's status: "exit 3", "signal 15", "signal 11 core". No signal is ignored.
how_dlock_ends() {  # <line of shell>...
  env --default-signal perl -e '
    for my $line (@ARGV) {
      my $pid = fork // die "fork: $!";
      if (!$pid) { exec "dlock", "run", "job", "--", "sh", "-c", $line or exit 255 }
      waitpid($pid, 0);
      my ($signal, $core) = ($? & 127, $? & 128);
      print $signal ? "signal $signal" . ($core ? " core" : "") : "exit " . ($? >> 8), "\n";
    }' "$@"
}

# Runs dlock and sets $status to its exit code and $output to its output. (`run` prints a
# warning if it is 127.)
run_any() {
  status=0
  timeout -s KILL 60 dlock "$@" > output 2>&1 < /dev/null || status=$?
  output=$(< output)
}

# Asserts that the last run did not start its command, exited with this code and printed one line.
assert_not_started() {  # <exit code>
  assert_message "$1"
}

assert_free() {
  run_any run job -- echo free
  assert_equal "$status $output" '0 free'
}

# Asserts for each command that dlock does not start it and exits as env(1) does, with this code.
assert_not_started_as_by_env() {  # <exit code> <command>...
  local command
  for command in "${@:2}"; do
    echo "command: $command"
    status=0
    env "$command" > output 2>&1 || status=$?
    assert_status "$1"
    run_any run job -- "$command"
    assert_not_started "$1"
  done
}

@test "dlock exits with the exit code of the command, be it one of dlock's, and prints nothing" {
  for code in 0 1 2 64 69 70 75 76 77 78 124 125 126 127 128 129 200 255; do
    run_any run job -- sh -c "exit $code"
    assert_equal "$status $output" "$code "
  done
}

@test "if a signal kills the command, dlock ends by the same signal and leaves no core file" {
  local signal lines=() wanted=()
  ulimit -S -c "$(ulimit -H -c)"
  for signal in {1..16} {24..27} 29 30 31 34 49 64; do
    lines+=("ulimit -c 0; kill -$signal \$\$; exec sleep 60")
    wanted+=("signal $signal")
  done

  run how_dlock_ends "${lines[@]}" 'exit 143'

  assert_equal "$output" "$(printf '%s\n' "${wanted[@]}" 'exit 143')"
  assert_equal "$(find . -name '*core*')" ''
}

@test "a command that is not found exits with 127" {
  : > file
  ln -s /no/such/file link

  # Directories in PATH that cannot be entered would make it 126.
  PATH=$BATS_FILE_TMPDIR/bin:/usr/bin:/bin assert_not_started_as_by_env 127 no-such-command ./no/such/command '' ./link
  run_any run job -- ./file/command
  assert_not_started 127
  run_any run job -- $'./\e]0;title\a'
  assert_not_started 127
  refute_output_contains $'\e'
  assert_free
}

@test "a file that cannot be executed exits with 126" {
  local long
  printf -v long '%0300d' 7
  printf '#!/bin/sh\n' > script
  mkdir directory tools
  cp script tools/tool
  ln -s loop loop

  assert_not_started_as_by_env 126 ./script ./directory ./loop "./$long"
  PATH=$PWD/tools:$PATH assert_not_started_as_by_env 126 tool
  assert_free
}

@test "a script without its interpreter or without #!, and a binary of an unknown format, exit with 126 and the reason" {
  printf '#!/no/such/interpreter\n' > script
  echo 'echo ran' > plain
  printf '\177ELF nonsense' > binary
  chmod +x script plain binary

  run_any run job -- ./script
  assert_not_started 126
  assert_output_contains interpreter
  # No shell is called.
  run_any run job -- ./plain
  assert_not_started 126
  assert_output_contains './plain: exec format error: a script without a #! line'
  run_any run job -- ./binary
  assert_not_started 126
  assert_output_contains './binary: exec format error: a program for another architecture'
  assert_free
}

# LeakSanitizer starts a tracing process at the end, which fails under strace and under a
# process limit.
without_leak_check() { ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 "$@"; }

traced() { without_leak_check strace -qq -o trace "$@"; }

# Runs a command as a separate user, because the limit counts all processes of a user.
stranger=54321
as_stranger() {
  local user=()
  ((EUID != 0)) || user=(setpriv --reuid "$stranger" --regid "$stranger" --clear-groups)
  without_leak_check "${user[@]}" "$@"
}

@test "a process limit that is reached exits with 125" {
  # The test's own directory is closed to others.
  open_place=$(mktemp -d /tmp/dlock-tests.XXXXXX)
  cp "$DLOCK_BIN" "$open_place/dlock"
  ((EUID != 0)) || chown -R "$stranger" "$open_place"
  cd "$open_place"
  store=(--store "local:$open_place/store")

  run as_stranger prlimit --nproc=1 ./dlock "${store[@]}" run job -- /bin/echo ran

  assert_message 125
  run as_stranger ./dlock "${store[@]}" status job
  assert_status 1
}

@test "lack of memory for another process exits with 125" {
  run traced -e inject=fork,vfork,clone,clone3:error=ENOMEM dlock run job -- echo ran

  assert_not_started 125
  assert_free
}

@test "lack of memory for the command exits with 125" {
  printf '#!/bin/sh\necho ran\n' > tool
  chmod +x tool

  run traced -f -P "$PWD/tool" -e inject=execve:error=ENOMEM dlock run job -- "$PWD/tool"

  assert_not_started 125
  assert_free
}

# Takes the mutexes that every change of a lock needs, and does not release them.
keep_store_busy() {
  dlock run job -- true
  perl -MFcntl -e '
    # The mutexes of all locks: sessions.hpp.
    my $mutexes = pack "s s x4 q q l x4", F_WRLCK, 0, 1 << 62, 0, 0;
    open my $sessions, "+<", shift or die;
    fcntl $sessions, F_SETLK, $mutexes or die;
    open my $taken, ">", "taken";
    sleep 60' store/sessions 3>&- &
  busy=$!
  eventually test -e taken
}

@test "a run on a store that stays busy exits with 69, at the end of --wait, and verbs that only read do not wait for it" {
  keep_store_busy

  run traced -e trace=fcntl dlock --store-timeout 2s run job -- true
  assert_message 69
  (($(grep -c F_OFD_SETLK trace) < 200)) # the longer it waits, the less often it asks
  run_any --store-timeout 50ms run -w 300ms job -- true
  assert_status 69
  for look in 'status job' list 'history job' 'doctor'; do
    # shellcheck disable=SC2086
    run timeout -s KILL 60 dlock --store-timeout 100ms $look
    refute_output_contains busy
    ((status <= 1))
  done

  : > said
  dlock -v --store-timeout 100ms run -w 60s job -- touch ran 2> said 3>&- &
  waiter=$!
  eventually grep -q 'kept busy .*; trying again' said
  [[ ! -e ran ]]
  kill -KILL "$busy"
  assert_exits 0 "$waiter"
  [[ -e ran ]]
}
