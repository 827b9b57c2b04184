# Helpers for all Bats files: waiting, asserting, and a private store for each test.
#
# They work with Bats 1.2.1 (Ubuntu 22.04) and later, so tests must not use newer
# features: `run` with options such as `-75` or `--separate-stderr`, and
# bats_require_minimum_version.

# Bats records each command, to show where a test failed. This takes a third of a millisecond per
# command, which was half of the tests' time. The commands of the test itself are still recorded,
# because its function was entered before this. Those of the functions that it calls and of the
# files that it loads need not be.
set +T
recorder_of_bats=$(trap -p DEBUG)
trap - DEBUG

# Bats before 1.4 has only $BATS_TMPDIR, which all files and tests share. If
# setup_file loads this file too, its tests find the directory of the file in the
# environment. kill_leftovers removes the directory that a test has created here.
if [[ -z ${BATS_FILE_TMPDIR:-} ]]; then
  BATS_FILE_TMPDIR=$(mktemp -d "${BATS_TMPDIR:-/tmp}/dlock-tests.XXXXXX")
  export BATS_FILE_TMPDIR
  made_here=$BATS_FILE_TMPDIR
fi
if [[ -z ${BATS_TEST_TMPDIR:-} && -n ${BATS_TEST_NUMBER:-} ]]; then
  export BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR/test-$BATS_TEST_NUMBER
  mkdir -p "$BATS_TEST_TMPDIR"
  : "${made_here:=$BATS_TEST_TMPDIR}"
fi

# The source tree, and the program under test: set by ctest, otherwise the one that
# `cmake --build --preset release` has built.
: "${DLOCK_SOURCE:=$(realpath "${BASH_SOURCE[0]%/*}/../..")}"
: "${DLOCK_BIN:=$DLOCK_SOURCE/build/release/dlock}"
export DLOCK_SOURCE DLOCK_BIN

# Files of a test: what a program said, its report, and what commands write when they run.
# shellcheck disable=SC2034  # for the tests
said=${BATS_TEST_TMPDIR:-}/said report=${BATS_TEST_TMPDIR:-}/report
# shellcheck disable=SC2034
began=${BATS_TEST_TMPDIR:-}/began order=${BATS_TEST_TMPDIR:-}/order ran=${BATS_TEST_TMPDIR:-}/ran
# shellcheck disable=SC2034,SC2016
noting=(sh -c 'echo "$2" >> "$1"' -)
of_report() { jq -r "$1" "$report"; }  # <filter>

# Prints the time in milliseconds, for differences only.
now_ms() {
  # The separator depends on the locale.
  local now=${EPOCHREALTIME/[.,]/}
  echo $((now / 1000))
}

# A FIFO without a writer, so to read from it takes until the timeout. It is also opened for
# writing, because that does not block.
silence=$BATS_FILE_TMPDIR/silence
[[ -p $silence ]] || mkfifo "$silence"

# Waits without a process, of which tests would start thousands. A `sleep` is only needed after
# the directory of the file was removed.
pause() { read -r -t "$1" 2> /dev/null <> "$silence" || [[ -p $silence ]] || sleep "$1"; }  # <seconds>

# Waits until a command succeeds, for at most a minute or $EVENTUALLY_MS. It costs nothing if it comes
# true, so a bound below a minute only says how busy the machine may be.
eventually() {  # <command>...
  local limit=${EVENTUALLY_MS:-60000} started=${EPOCHREALTIME/[.,]/} span=0.02 attempts=0
  until "$@" > /dev/null 2>&1; do
    if ((${EPOCHREALTIME/[.,]/} - started >= limit * 1000)); then
      echo "did not come true within $limit ms: $*" >&2
      show_servers >&2
      return 1
    fi
    pause "$span"
    # What takes longer is not so urgent, and the other tests need the processors.
    ((++attempts < 10)) || span=0.06
    ((attempts < 30)) || span=0.12
  done
}

# Repeats a command while it fails with this exit code, as long as `eventually`. Any other failure is one.
while_it_fails_with() {  # <exit code> <command>...
  expected_code=$1 other_code=
  eventually succeeds_or_fails_otherwise "${@:2}" || return
  [[ -z $other_code ]] || { echo "exited with $other_code, neither 0 nor $1: ${*:2}" >&2; return 1; }
}
succeeds_or_fails_otherwise() {
  local code=0
  "$@" || code=$?
  ((code != expected_code)) || return 1
  ((code == 0)) || other_code=$code
}

# Prints the ends of the logs of the servers, and how they see each other. They do not exist any more
# when anyone reads why a test failed.
# shellcheck disable=SC2154  # the helpers of each kind of server set these
show_servers() {
  local log i
  for log in "$BATS_TEST_TMPDIR"/*.log "${redis_root:-/nowhere}"/log "${fleet:-/nowhere}"/*/log \
    "${postgres_root:-/nowhere}"/*.log; do
    [[ ! -s $log ]] || { printf -- '--- %s\n' "$log"; tail -n 20 "$log"; }
  done
  if [[ -n ${redis_root:-} ]]; then timeout 5 redis-cli -s "$redis_socket" INFO replication; fi
  for i in ${fleet:+"${!ports[@]}"}; do
    ((i == 0)) || { printf -- '--- server %s: ' "$i"; member "$i" ROLE | tr '\n' ' '; echo; }
  done
  for i in ${postgres_root:+"${!postgres_pid[@]}"}; do
    printf -- '--- server %s: standbys:\n' "$i"
    timeout 10 "$postgres_programs/psql" -XAt -h "$postgres_sockets" -p "${postgres_port[i]}" -U postgres -d app \
      -c 'SELECT application_name, state, sync_state, sent_lsn, flush_lsn FROM pg_stat_replication'
  done
  uptime
} 2> /dev/null

# Removes a directory in which running processes may still create files. A single rm
# fails if a file appears while it is at work.
remove() { eventually rm -rf "$@"; }  # <directory>...

# Asserts that a command does not succeed within so many milliseconds. It always takes
# all of this time, so use it only where no event can be awaited, and for short times.
never_within() {  # <milliseconds> <command>...
  local limit=$1 started=${EPOCHREALTIME/[.,]/}
  shift
  while ((${EPOCHREALTIME/[.,]/} - started < limit * 1000)); do
    if "$@" > /dev/null 2>&1; then
      echo "came true after $(((${EPOCHREALTIME/[.,]/} - started) / 1000)) ms: $*" >&2
      return 1
    fi
    pause 0.02
  done
}

# Waits for a background job, for at most as long as `eventually` does, and asserts its
# exit status. (`run wait` would wait in a subshell.)
assert_exits() {  # <status> <pid>
  local status=0
  eventually has_ended "$2" || { show_processes "$2" 2> /dev/null | head -n 40 >&2; return 1; }
  wait "$2" || status=$?
  [[ $status -eq $1 ]] || { echo "exited with $status, not $1" >&2; return 1; }
}

# Prints what a process, each of its threads and each of its children does, or waits for.
show_processes() {  # <pid>...
  local pid task
  for pid; do
    for task in "/proc/$pid/task"/*; do
      echo "--- ${task#/proc/}: $(tr '\0' ' ' < "$task/cmdline")"
      grep -E '^(State|TracerPid|Sig|ShdPnd)' "$task/status" | tr '\t\n' ' '
      echo "wchan $(< "$task/wchan"), syscall $(< "$task/syscall")"
      head -n 8 "$task/stack"
    done
    ! command -v gdb > /dev/null || timeout 20 gdb -p "$pid" -batch -ex bt < /dev/null | grep '^#'
    pgrep -P "$pid" | while read -r pid; do show_processes "$pid"; done
  done
}

# True if this process has ended, even if it has not been reaped.
has_ended() {  # <pid>
  local stat
  read -r stat 2> /dev/null < "/proc/$1/stat" || return 0
  # The state follows the name of the program, which is in parentheses.
  [[ ${stat##*) } == [ZX]* ]]
}

assert_equal() {  # <actual> <expected>
  [[ $1 == "$2" ]] || { printf 'is:       %s\nexpected: %s\n' "$1" "$2" >&2; return 1; }
}

# For the end of a test as well: `!` alone does not fail there, and Bats has `run !` only from 1.5 on.
refute() { ! "$@"; }  # <command>...

# As `run`, but what goes to standard error is in $stderr and $stderr_lines.
run_apart() {  # <command>...
  # shellcheck disable=SC2034  # they are for the test
  {
    status=0
    output=$("$@" 2> "$BATS_TEST_TMPDIR/apart") || status=$?
    stderr=$(< "$BATS_TEST_TMPDIR/apart")
    mapfile -t lines <<< "$output"
    mapfile -t stderr_lines < "$BATS_TEST_TMPDIR/apart"
  }
}

# The next ones check the result of `run`: $status, $output and $lines.

assert_status() {  # <status>
  [[ $status -eq $1 ]] ||
    { printf 'exited with %s, not %s, and printed:\n%s\n' "$status" "$1" "${output:-}" >&2; return 1; }
}

assert_output_contains() {  # <text>
  [[ $output == *"$1"* ]] ||
    { printf 'no "%s" in the output:\n%s\n' "$1" "$output" >&2; return 1; }
}

refute_output_contains() {  # <text>
  [[ $output != *"$1"* ]] || { printf '"%s" in the output:\n%s\n' "$1" "$output" >&2; return 1; }
}

# Prints a file without the lines that waits for a lock begin with.
but_for_wait() { sed '/: waiting: held by /d' "$1"; }

# Asserts that the output is a single message of dlock.
assert_one_line() {
  [[ $output == 'dlock: '* && $output != *$'\n'* ]] ||
    { printf 'not one line that begins with "dlock: ":\n%s\n' "$output" >&2; return 1; }
}

# Asserts that `run` ended with this exit code and printed one message of dlock alone, which contains these
# texts.
assert_message() {  # <exit code> [<text>...]
  local text
  assert_status "$1" && assert_one_line || return
  for text in "${@:2}"; do assert_output_contains "$text" || return; done
}

# jq 1.6 (Debian 12) takes 19 ms of processor time to start, and tests start it thousands of times;
# gojq takes 2 ms, but does not keep the order of keys, for which these filters ask.
if command -v gojq > /dev/null; then
  jq() {
    if [[ $* == *@(keys_unsorted|tojson|'map(type)')* ]]; then command jq "$@"; else gojq "$@"; fi
  }
fi

# Prints the result of a jq filter on the output, strings without quotes. Fails if the
# output is not JSON.
json() {  # <filter>
  jq -r "$1" <<< "$output" || { printf 'filter %s on:\n%s\n' "$1" "$output" >&2; return 1; }
}

# For `setup`: puts the program under test on PATH as `dlock`, with a store, a home
# directory and settings that nothing else uses. Marks all processes that are started
# from now on for kill_leftovers. `env -i` in a test must keep DLOCK_TEST_ID.
use_private_store() {
  local variable root=$BATS_TEST_TMPDIR
  for variable in ${!DLOCK_@}; do
    [[ $variable == DLOCK_@(BIN|SOURCE|TEST_*) ]] || unset "$variable"
  done
  unset NO_COLOR

  [[ -x $DLOCK_BIN ]] || { echo "not built: $DLOCK_BIN" >&2; return 1; }
  # $root/bin is for programs of a test's own.
  mkdir -m 700 "$root/bin" "$root/home" "$root/runtime"
  [[ $DLOCK_BIN == /* ]] || DLOCK_BIN=$PWD/$DLOCK_BIN
  [[ -e $BATS_FILE_TMPDIR/bin/dlock ]] ||
    { mkdir -p "$BATS_FILE_TMPDIR/bin" && ln -sf "$DLOCK_BIN" "$BATS_FILE_TMPDIR/bin/dlock"; } || return
  PATH=$root/bin:$BATS_FILE_TMPDIR/bin:$PATH

  export HOME=$root/home
  export XDG_CONFIG_HOME=$HOME/.config XDG_DATA_HOME=$HOME/.local/share
  export XDG_STATE_HOME=$HOME/.local/state XDG_CACHE_HOME=$HOME/.cache
  export XDG_RUNTIME_DIR=$root/runtime

  export DLOCK_STORE=local:$root/store
  case ${DLOCK_TEST_STORE:-local} in
    redis) use_server_as_store ;;
    postgres) use_database_as_store ;;
    etcd | sentinel | cluster | quorum) use_servers_as_store ;;
  esac || return
  export DLOCK_TEST_ID=$root
  # Processes with the mark have greater pids, unless pids begin anew.
  read -r _ _ _ _ marked_since < /proc/loadavg
}

# Makes a private Redis server the store, for DLOCK_TEST_STORE=redis.
use_server_as_store() {
  local socket=$BATS_TEST_TMPDIR/server.socket log=$BATS_TEST_TMPDIR/server.log
  : > "$log"  # a test ends if it reads a file that does not exist yet
  # It starts before the mark is set, so it does not count as a process of the test.
  redis-server --port 0 --unixsocket "$socket" --save '' --dir "$BATS_TEST_TMPDIR" \
    >> "$log" 2>&1 3>&- &
  server_pid=$!
  disown "$server_pid"
  # The file of the socket exists before the server listens.
  server_listens() { [[ $(< "$log") == *'eady to accept connections'* ]]; }
  eventually server_listens || return
  export DLOCK_STORE=redis+unix:$socket
}

# Makes a private PostgreSQL server the store, for DLOCK_TEST_STORE=postgres.
use_database_as_store() {
  # shellcheck source=tests/bats/postgres.bash
  . "$DLOCK_SOURCE/tests/bats/postgres.bash"
  start_first_postgres
}

# Makes private servers of another kind the store, for its name in DLOCK_TEST_STORE.
use_servers_as_store() {
  local file
  for file in bats/etcd faults/redis faults/partition faults/sentinel faults/cluster faults/quorum; do
    # shellcheck source=/dev/null
    . "$DLOCK_SOURCE/tests/$file.bash"
  done
  use_private_store() { :; }  # of which this is a part
  case $DLOCK_TEST_STORE in
    etcd) use_etcd_store ;;
    sentinel) start_fleet ;;
    cluster) use_cluster_store ;;
    quorum) start_quorum 3 ;;
  esac
}

# Between these two, no other test in the same network chooses ports. Otherwise two could choose the same,
# because a chosen port stays free until a server listens there.
begin_to_use_ports() { exec {port_lock}< /proc/self/ns/net && flock "$port_lock"; }
ports_are_used() { flock --unlock "$port_lock" && exec {port_lock}<&-; }

# Prints ports of 127.0.0.1 that are free.
free_ports() {  # <number>
  perl -MIO::Socket::INET -e \
    'my @s = map { IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") } 1 .. shift;
     print join(" ", map { $_->sockport } @s), "\n"' "$1"
}

accepts_connections() { (: <> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }  # <port>

# Sets $left to the processes that this test started and that still run.
find_leftovers() {
  local last process variables first=${marked_since:-$$}
  left=()
  # Without another process, which would take longer than most of what a test does. On a machine that
  # does nothing else, there is no process to look at.
  read -r _ _ _ _ last < /proc/loadavg
  if ((last >= first && last < first + 5000 && SECONDS < 20)); then
    ((last > first)) || return 0
    for process in /proc/[0-9]*; do
      ((${process#/proc/} > first)) || continue
      mapfile -d '' variables 2> /dev/null < "$process/environ" || continue
      [[ " ${variables[*]} " != *" DLOCK_TEST_ID=$BATS_TEST_TMPDIR "* ]] || left+=("${process#/proc/}")
    done
    return
  fi
  # grep runs without the mark, or it would find itself.
  mapfile -t left < <(unset DLOCK_TEST_ID
    exec grep -lzxF "DLOCK_TEST_ID=$BATS_TEST_TMPDIR" /proc/[0-9]*/environ 2> /dev/null)
  left=("${left[@]//[!0-9]/}")
}

no_leftovers() {
  local left
  find_leftovers
  ((${#left[@]} == 0))
}

# Stops a process. kill returns before all threads have stopped, and they could still reply.
halt() {  # <pid>
  kill -STOP "$1"
  eventually has_halted "$1"
}
has_halted() {
  local running
  running=$(grep -L '^State:[[:space:]]*[Tt]' /proc/"$1"/task/*/status 2> /dev/null) || true
  [[ -z $running ]]
}

# Whether a process writes nothing for a while, after a command of ours.
writes_nothing() {  # <pid> [<command> <argument>...]
  local before
  before=$(written_by "$1")
  "${@:2}"
  pause 0.2
  [[ $(written_by "$1") == "$before" ]]
}
written_by() { sed -n 's/^wchar: //p' "/proc/$1/io"; }  # <pid>

# Bats calls this behind each test. What else a file has to end is its function `clean_up`.
teardown() {
  local end
  for end in clean_up stop_redis stop_fleet stop_etcd stop_postgres kill_leftovers; do
    ! declare -F "$end" > /dev/null || "$end"
  done
  [[ -z ${open_place:-} ]] || rm -rf "$open_place"
}

# Kills all processes that the test has left.
kill_leftovers() {
  local pids=()
  # Background jobs that are functions or subshells have no mark.
  [[ -z ${!:-} ]] || mapfile -t pids < <(jobs -p -r; jobs -p -s)
  end_processes "${pids[@]}" ${server_pid:+"$server_pid"}
  # Repeats until there are none, because a process may have been starting another one.
  eventually end_leftovers || return
  [[ -z ${made_here:-} ]] || rm -rf --one-file-system "$made_here"
}

end_leftovers() {
  local left
  find_leftovers
  end_processes "${left[@]}"
  ((${#left[@]} == 0))
}

# SIGKILL also kills stopped processes. Some may have exited already.
end_processes() {  # [<pid>...]
  (($# == 0)) || kill -KILL "$@" 2> /dev/null || true
}

# shellcheck source=tests/faults/locks.bash
. "$DLOCK_SOURCE/tests/faults/locks.bash"

eval "$recorder_of_bats"
