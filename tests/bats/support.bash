# Helpers for all Bats files: waiting, asserting, and a store of the test's own.
#
# They work with Bats from 1.2.1 (Ubuntu 22.04) on, so tests must do without
# what came later: `run` with options such as `-75` or `--separate-stderr`, and
# bats_require_minimum_version.

# Bats before 1.4 has only $BATS_TMPDIR, which all files and tests share. The
# file's directory gets to its tests through the environment if setup_file loads
# this too. What a test makes for itself, kill_leftovers removes.
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

# The source tree, and the program under test: set by ctest, else what
# `cmake --build --preset release` made.
: "${DLOCK_SOURCE:=$(realpath "${BASH_SOURCE[0]%/*}/../..")}"
: "${DLOCK_BIN:=$DLOCK_SOURCE/build/release/dlock}"
export DLOCK_SOURCE DLOCK_BIN

# Prints the time in milliseconds, for differences only.
now_ms() {
  # The separator depends on the locale.
  local now=${EPOCHREALTIME/[.,]/}
  echo $((now / 1000))
}

# Waits until a command succeeds, at most 10 s, or what EVENTUALLY_MS says.
eventually() {  # <command>...
  local limit=${EVENTUALLY_MS:-10000} started=${EPOCHREALTIME/[.,]/}
  until "$@" > /dev/null 2>&1; do
    if ((${EPOCHREALTIME/[.,]/} - started >= limit * 1000)); then
      echo "did not come true within $limit ms: $*" >&2
      return 1
    fi
    sleep 0.02
  done
}

# Removes a directory that running processes may still create files in, for which rm
# alone fails when a file appears behind its back.
remove() { eventually rm -rf "$@"; }  # <directory>...

# Asserts that a command does not succeed for so many milliseconds. It takes all
# of them, so it is for what no event can tell, and for little time.
never_within() {  # <milliseconds> <command>...
  local limit=$1 started=${EPOCHREALTIME/[.,]/}
  shift
  while ((${EPOCHREALTIME/[.,]/} - started < limit * 1000)); do
    if "$@" > /dev/null 2>&1; then
      echo "came true after $(((${EPOCHREALTIME/[.,]/} - started) / 1000)) ms: $*" >&2
      return 1
    fi
    sleep 0.02
  done
}

# Asserts how a background job exits, and waits for it, at most as long as
# `eventually` does. (`run wait` would wait in a subshell.)
assert_exits() {  # <status> <pid>
  local status=0
  eventually has_ended "$2" || return 1
  wait "$2" || status=$?
  [[ $status -eq $1 ]] || { echo "exited with $status, not $1" >&2; return 1; }
}

# True if this process is gone, or only waits to be waited for.
has_ended() {  # <pid>
  ! grep -qs '^State:.[^Z]' "/proc/$1/status"
}

assert_equal() {  # <actual> <expected>
  [[ $1 == "$2" ]] || { printf 'is:       %s\nexpected: %s\n' "$1" "$2" >&2; return 1; }
}

# The next ones look at what `run` left: $status, $output and $lines.

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

# Asserts that the output is one message of dlock's.
assert_one_line() {
  [[ $output == 'dlock: '* && $output != *$'\n'* ]] ||
    { printf 'not one line that begins with "dlock: ":\n%s\n' "$output" >&2; return 1; }
}

# Prints what a jq filter finds in the output, strings without quotes. Fails if
# the output is not JSON.
json() {  # <filter>
  jq -r "$1" <<< "$output" || { printf 'filter %s on:\n%s\n' "$1" "$output" >&2; return 1; }
}

# For `setup`: puts the program under test on PATH as `dlock`, with a store, a
# home and settings that nothing else uses, and marks whatever is started from
# now on for kill_leftovers. `env -i` in a test must keep DLOCK_TEST_ID.
use_private_store() {
  local variable root=$BATS_TEST_TMPDIR
  for variable in ${!DLOCK_@}; do
    [[ $variable == DLOCK_@(BIN|SOURCE|TEST_STORE) ]] || unset "$variable"
  done
  unset NO_COLOR

  [[ -x $DLOCK_BIN ]] || { echo "not built: $DLOCK_BIN" >&2; return 1; }
  mkdir "$root/bin" "$root/home"
  mkdir -m 700 "$root/runtime"
  ln -sf "$(realpath "$DLOCK_BIN")" "$root/bin/dlock"
  PATH=$root/bin:$PATH

  export HOME=$root/home
  export XDG_CONFIG_HOME=$HOME/.config XDG_DATA_HOME=$HOME/.local/share
  export XDG_STATE_HOME=$HOME/.local/state XDG_CACHE_HOME=$HOME/.cache
  export XDG_RUNTIME_DIR=$root/runtime

  export DLOCK_STORE=local:$root/store
  [[ ${DLOCK_TEST_STORE:-local} == local ]] || use_server_as_store || return
  export DLOCK_TEST_ID=$root

  # For where a test fails Bats notes each command, in a third of a millisecond, which was
  # half of what the tests cost. The lines of the test's own it still notes, for its function
  # was entered before this; those of the functions that it calls it need not.
  set +T
}

# The same tests, but on a Redis server of the test's own: for DLOCK_TEST_STORE=redis.
use_server_as_store() {
  local socket=$BATS_TEST_TMPDIR/server.socket
  # Before the mark is set: it is none of what the test started.
  redis-server --port 0 --unixsocket "$socket" --save '' --dir "$BATS_TEST_TMPDIR" \
    > "$BATS_TEST_TMPDIR/server.log" 2>&1 3>&- &
  server_pid=$!
  disown "$server_pid"
  # The socket's file is there before anybody listens.
  answers() { [[ $(redis-cli -s "$socket" PING) == PONG ]]; }
  eventually answers || return
  export DLOCK_STORE=redis+unix:$socket
}

# Prints the processes that this test started and that are still there. Without
# the mark in this subshell, or it would find its own grep.
leftovers() (
  unset DLOCK_TEST_ID
  grep -lzxF "DLOCK_TEST_ID=$BATS_TEST_TMPDIR" /proc/[0-9]*/environ 2> /dev/null | tr -dc '0-9\n'
)

no_leftovers() { [[ -z $(leftovers) ]]; }

# For `teardown`: ends whatever the test left running.
kill_leftovers() {
  local pids
  # Background jobs that are functions or subshells carry no mark.
  mapfile -t pids < <(jobs -p -r; jobs -p -s)
  end_processes "${pids[@]}" ${server_pid:+"$server_pid"}
  # Again until there are none: a process may have been starting another one.
  eventually end_leftovers || return
  [[ -z ${made_here:-} ]] || rm -rf --one-file-system "$made_here"
}

end_leftovers() {
  local pids
  mapfile -t pids < <(leftovers)
  end_processes "${pids[@]}"
  no_leftovers
}

# SIGKILL ends stopped processes too. Some may be gone already.
end_processes() {  # [<pid>...]
  (($# == 0)) || kill -KILL "$@" 2> /dev/null || true
}
