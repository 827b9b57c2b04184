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

# The same, and asserts that env(1) exits with this code, too.
assert_not_started_as_by_env() {  # <exit code> <command>...
  status=0
  env "${@:2}" > output 2>&1 || status=$?
  assert_status "$1"
  run_any run job -- "${@:2}"
  assert_not_started "$1"
}

# Asserts that dlock refuses each command line of standard input with this code and in
# one line.
assert_each_refused() {  # <code>
  local line words
  while read -r line; do
    eval "words=($line)"
    run_any "${words[@]}"
    { assert_status "$1" && assert_one_line; } || { echo "by: dlock $line" >&2; return 1; }
  done
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

@test "the lock is free after a command that failed" {
  run_any run job -- sh -c 'exit 3'

  is_free job
}

@test "the lock is free after a command that a signal killed" {
  run_any run job -- sh -c 'kill -KILL $$'

  is_free job
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

@test "a missing verb exits with 64" {
  run_any

  assert_status 64
  assert_one_line
}

@test "an invalid command line exits with 64 and one line of error" {
  assert_each_refused 64 << 'END'
frobnicate
frobnicate job -- true
run
run job
run job --
run --unknown job -- true
--unknown
--wait 5s run job -- true
status
status a b
status --wait 5s job
status -n 2 job
list a b
run '' true
run --no-quiet job true
run --quiet=maybe job true
END
}

@test "an invalid duration exits with 64" {
  assert_each_refused 64 << 'END'
run -w -1 job true
run -w=-1s job true
run -w nan job true
run -w inf job true
run -w 1e3 job true
run -w 0x10 job true
run -w '' job true
run -w ' 5s' job true
run -w '5 s' job true
run -w 5x job true
run -w 5ss job true
run -w 5S job true
run -w 1s1h job true
run -w 1h5 job true
run -w . job true
run -w 1.2.3s job true
run -w 1,5 job true
run -w s job true
run -w +5 job true
run -w never job true
run -w 99999999999999999999 job true
run -w 1000000000000d job true
run --jitter forever job true
run --kill-after x job true
run --timeout x job true
run --ttl x job true
--store-timeout x run job true
END
}

@test "zero exits with 64 where it makes no sense" {
  assert_each_refused 64 << 'END'
run --ttl 0 job true
run --ttl 0s job true
run --ttl 499ms job true
run --timeout 0 job true
run --timeout 0ms job true
--store-timeout 0 run job true
run -n 0 job true
END
}

@test "every form of duration in the manual is accepted" {
  for duration in 250ms 30s 5m 2h 1d 1h30m 0.5s 7 0 0.25 1d2h3m4s5ms forever; do
    run_any run -w "$duration" job -- true
    assert_equal "$status $output" '0 '
  done
}

@test "an invalid number exits with 64" {
  assert_each_refused 64 << 'END'
run -n x job true
run -n -1 job true
run -n 1.5 job true
run -n '' job true
run -n 99999999999 job true
run -E 256 job true
run -E -1 job true
run -E x job true
run -E '' job true
END
}

@test "an unknown value of an option exits with 64" {
  assert_each_refused 64 << 'END'
run --stragglers maybe job true
--color maybe run job true
END
}

@test "--shared together with --slots exits with 64" {
  assert_each_refused 64 << 'END'
run --slots 2 --shared job true
run -s -n 1 job true
END
}

@test "an invalid command line leaves no trace in the store" {
  run_any run -w nonsense job -- true

  refute test -e store
}

@test "an invalid store URL exits with 78" {
  assert_each_refused 78 << 'END'
--store nonsense run job true
--store nonsense: run job true
--store local run job true
--store local:relative run job true
--store none:x run job true
--store http://host run job true
--store redis+sentinel://a,b run job true
--store redis+sentinel://a,a/name run job true
--store redis+cluster://a,b/0 run job true
--store redis+cluster://a,b:0 run job true
--store :/dir run job true
--store local:/dev/null run job true
--store nonsense: status job
--store nonsense: list
END
}

@test "a --config file that is missing or invalid exits with 78" {
  echo 'namespace = ' > broken.toml

  assert_each_refused 78 << 'END'
--config missing.toml run job true
--config broken.toml run job true
--config . run job true
--config missing.toml status job
END
}

@test "a different number of slots exits with 78, and both numbers are named" {
  hold job -n 3

  run_any run -n 5 job -- true

  assert_status 78
  assert_one_line
  assert_output_contains 3
  assert_output_contains 5
}

@test "a store directory that everyone can write to exits with 77" {
  mkdir -m 777 open

  run_any --store "local:$PWD/open" run job -- echo ran

  assert_status 77
  assert_one_line
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

@test "status exits with 0 if the lock is held" {
  hold job

  run dlock status job

  assert_status 0
}

@test "status exits with 1 if the lock is free" {
  run dlock status job

  assert_status 1
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
