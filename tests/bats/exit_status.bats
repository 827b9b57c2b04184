#!/usr/bin/env bats
# How dlock exits: as the command did, or with a code that says why the command did not run.
# Afterwards the lock is free.
# shellcheck disable=SC2016  # the commands' own variables

setup() {
  load support
  load ../faults/locks
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
  kill_leftovers
  [[ -z ${open_place:-} ]] || rm -rf "$open_place"
}

refute() { ! "$@"; }

# Prints how a command ends, as wait(2) reports it, which is more than a shell's status:
# "exit 3", "signal 15", "signal 11 core". No signal is ignored.
how_it_ends() {  # <command>...
  env --default-signal perl -e '
    my $pid = fork // die "fork: $!";
    if (!$pid) { exec { $ARGV[0] } @ARGV or exit 255 }
    waitpid($pid, 0);
    my ($signal, $core) = ($? & 127, $? & 128);
    print $signal ? "signal $signal" . ($core ? " core" : "") : "exit " . ($? >> 8), "\n"' "$@"
}

# Runs dlock and sets $status to its exit code and $output to its output. (`run` prints a
# warning if it is 127.)
run_any() {
  status=0
  timeout -s KILL 20 dlock "$@" > output 2>&1 < /dev/null || status=$?
  output=$(< output)
}

# Asserts that the last run did not start its command, exited with this code, printed one
# line and left the lock free.
assert_not_started() {  # <exit code>
  assert_status "$1"
  assert_one_line
  run_any run job -- echo free
  assert_equal "$status $output" '0 free'
}

# The same, and asserts that env(1) exits with this code as well.
assert_not_started_as_by_env() {  # <exit code> <command>...
  status=0
  env "${@:2}" > output 2>&1 || status=$?
  assert_status "$1"
  run_any run job -- "${@:2}"
  assert_not_started "$1"
}

@test "dlock exits with the exit code of the command" {
  for code in {0..255}; do
    status=0
    dlock run job -- sh -c "exit $code" || status=$?
    assert_equal "$status" "$code"
  done
}

@test "if a signal kills the command, dlock ends by the same signal" {
  for signal in {1..31} {34..64}; do
    case $(kill -l "$signal") in
      CHLD | CONT | STOP | TSTP | TTIN | TTOU | URG | WINCH) continue ;;
    esac
    run how_it_ends dlock run job -- sh -c "ulimit -c 0; kill -$signal \$\$; exec sleep 60"
    assert_equal "$output" "signal $signal"
  done
}

@test "dlock leaves no core file if its command dumps core" {
  ulimit -S -c "$(ulimit -H -c)"

  for signal in QUIT ILL ABRT BUS FPE SEGV SYS TRAP XCPU XFSZ; do
    run how_it_ends dlock run job -- sh -c "ulimit -c 0; kill -$signal \$\$"
    assert_equal "$output" "signal $(kill -l $signal)"
  done
  assert_equal "$(find . -name '*core*')" ''
}

@test "an exit code above 128 is not mistaken for a signal" {
  run how_it_ends dlock run job -- sh -c 'exit 143'

  assert_equal "$output" 'exit 143'
}

@test "the exit code is right even if the command ends at once" {
  for _ in {1..50}; do
    status=0
    dlock run job -- false || status=$?
    assert_equal "$status" 1
  done
}

@test "a command that is not found exits with 127" {
  # Directories in PATH that cannot be entered would make it 126.
  PATH=$BATS_TEST_TMPDIR/bin:/usr/bin:/bin assert_not_started_as_by_env 127 no-such-command
}

@test "a path that does not exist exits with 127" {
  assert_not_started_as_by_env 127 ./no/such/command
}

@test "a path through a file exits with 127" {
  touch file

  run_any run job -- ./file/command

  assert_not_started 127
}

@test "an empty command exits with 127" {
  assert_not_started_as_by_env 127 ''
}

@test "a dangling link exits with 127" {
  ln -s /no/such/file link

  assert_not_started_as_by_env 127 ./link
}

@test "a file that is not executable exits with 126" {
  printf '#!/bin/sh\n' > script

  assert_not_started_as_by_env 126 ./script
}

@test "a file in PATH that is not executable exits with 126" {
  mkdir tools
  printf '#!/bin/sh\n' > tools/tool

  PATH=$PWD/tools:$PATH assert_not_started_as_by_env 126 tool
}

@test "a directory exits with 126" {
  mkdir directory

  assert_not_started_as_by_env 126 ./directory
}

@test "a script whose interpreter does not exist exits with 126" {
  printf '#!/no/such/interpreter\n' > script
  chmod +x script

  run_any run job -- ./script

  assert_not_started 126
}

@test "the message about a missing interpreter names the interpreter" {
  printf '#!/no/such/interpreter\n' > script
  chmod +x script

  run_any run job -- ./script

  assert_output_contains interpreter
}

@test "a script without #! exits with 126, because no shell is called" {
  echo 'echo ran' > script
  chmod +x script

  run_any run job -- ./script

  assert_output_contains './script: exec format error: a script without a #! line'
  assert_not_started 126
}

@test "a binary of an unknown format exits with 126" {
  printf '\177ELF nonsense' > binary
  chmod +x binary

  run_any run job -- ./binary

  assert_output_contains './binary: exec format error: a program for another architecture'
  assert_not_started 126
}

@test "a link to itself exits with 126" {
  ln -s loop loop

  assert_not_started_as_by_env 126 ./loop
}

@test "a file name that is too long exits with 126" {
  local long
  printf -v long '%0300d' 7

  assert_not_started_as_by_env 126 "./$long"
}

@test "a command that cannot be started is named" {
  run_any run job -- ./no-such-command

  assert_output_contains 'dlock: job: ./no-such-command: '
}

@test "the name of a command that cannot be started is escaped" {
  run_any run job -- $'./\e]0;title\a'

  assert_one_line
  refute_output_contains $'\e'
}

@test "dlock prints nothing if the command exits with one of dlock's codes" {
  for code in 1 64 69 70 75 76 77 78 124 125 126 127; do
    run_any run job -- sh -c "exit $code"
    assert_equal "$status $output" "$code "
  done
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

  assert_status 125
  assert_one_line
  run as_stranger ./dlock "${store[@]}" status job
  assert_status 1
}

@test "lack of memory for another process exits with 125" {
  run traced -e inject=fork,vfork,clone,clone3:error=ENOMEM dlock run job -- echo ran

  assert_not_started 125
}

@test "lack of memory for the command exits with 125" {
  printf '#!/bin/sh\necho ran\n' > tool
  chmod +x tool

  run traced -f -P "$PWD/tool" -e inject=execve:error=ENOMEM dlock run job -- "$PWD/tool"

  assert_not_started 125
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

@test "a run on a store that stays busy exits with 69" {
  keep_store_busy

  run_any --store-timeout 100ms run job -- true

  assert_status 69
  assert_one_line
}

@test "a run that waits for a busy store exits with 69 when --wait is over" {
  keep_store_busy

  run_any --store-timeout 50ms run -w 300ms job -- true

  assert_status 69
}

@test "with --wait a run waits until the store is no longer busy" {
  keep_store_busy
  dlock -v --store-timeout 100ms run -w 60s job -- touch ran 2> said 3>&- &
  waiter=$!
  eventually grep -q 'kept busy .*; trying again' said
  [[ ! -e ran ]]

  kill -KILL "$busy"

  assert_exits 0 "$waiter"
  [[ -e ran ]]
}

@test "verbs that only read do not wait for a busy store" {
  keep_store_busy

  for look in 'status job' list 'history job' 'doctor'; do
    # shellcheck disable=SC2086
    run timeout -s KILL 20 dlock --store-timeout 100ms $look
    refute_output_contains busy
    ((status <= 1))
  done
}

@test "--help and --version print to standard output and exit with 0" {
  for words in --help --version -h 'run --help' 'run -h' 'status --help' 'list --help' 'run --version'; do
    # shellcheck disable=SC2086
    dlock $words > out 2> err
    test -s out
    refute test -s err
  done
}

@test "help that cannot be written is an error with a message" {
  run sh -c 'dlock --help > /dev/full'

  assert_status 69
  assert_one_line
}
