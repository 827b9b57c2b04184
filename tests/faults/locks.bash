# Helpers for tests with holders and waiters, which support.bash loads.

declare -gA held_by=()  # the FIFO that ends a holder's command, by its dlock's pid

# Holds a lock in the background until `let_go`. Sets $holder to the pid of its dlock
# and $command to that of its command.
hold() {  # <name> [<option>...]
  local fifo=$BATS_TEST_TMPDIR/held-${#held_by[@]}
  mkfifo "$fifo" || return
  # A FIFO that is opened for reading and writing does not block.
  # shellcheck disable=SC2016
  dlock run "${@:2}" "$1" -- \
    sh -c 'exec 3<> "$1"; echo $$ > "$1.pid"; read -r _ <&3' - "$fifo" 3>&- &
  holder=$!
  held_by[$holder]=$fifo
  eventually test -s "$fifo.pid" || return
  # shellcheck disable=SC2034
  command=$(< "$fifo.pid")
}

# Holds a lock of an embedded store, and waits until its dlock has stored the pid of the
# command, which is its last change of the state before the release.
hold_until_stored() {  # <name> [<option>...]
  hold "$@" && eventually is_stored "$command"
}

# shellcheck disable=SC2154  # use_private_store sets store
is_stored() {  # <pid>
  cat "$store"/state-*/*.lock | perl -0777 -ne "exit(index(\$_, pack('l<', $1)) < 0)"
}

# Tells the command of a holder, by default the last one, to end with exit code 0.
let_go() {  # [<pid of its dlock>]
  echo 1<> "${held_by[${1:-$holder}]}"
}

# Starts a waiter in the background and returns once it queues. Sets $waiter to the pid
# of its dlock.
queue() {  # <name> [<option>...] [--] <command>...
  dlock run --wait 60s "$@" 3>&- &
  waiter=$!
  eventually is_queued "$1" "$waiter"
}

# Does the same with a dlock of which no timer ever fires. It gets its turn because something woke it,
# and not because it looks again once in a while, however long that takes. $waiter is its strace.
# shellcheck disable=SC2034  # also for tests
without_timers=(env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
  strace -qq -o /dev/null -e trace=timerfd_settime -e inject=timerfd_settime:retval=0)
queue_without_timers() {  # <name> [<option>...] [--] <command>...
  "${without_timers[@]}" dlock run --wait 60s "$@" 3>&- &
  waiter=$!
  eventually queues_below_strace "$1"
}
queues_below_strace() { is_queued "$1" "$(pgrep -P "$waiter")"; }

# Prints the result of a jq filter on the status of a lock, strings without quotes.
look() {  # <name> <filter>
  dlock status --json "$1" | jq -r "$2"
}

# These are awaited often, and jq takes ten times as long to start as dlock.
is_held() { [[ $(dlock status --json "$1") == *'"state":"held"'* ]]; }
is_free() { [[ $(dlock status --json "$1") == *'"state":"free"'* ]]; }
nobody_waits() { [[ $(dlock status --json "$1") == *'"waiters":[]'* ]]; }
somebody_waits() { [[ $(dlock status --json "$1") == *'"waiters":[{'* ]]; }
# Waits until the lease of a holder was renewed: more of it is left than before.
await_longer_lease() {  # <name>
  left_before=$(look "$1" '.holders[0].expires_in_ms')
  eventually has_longer_lease "$1"
}
has_longer_lease() {
  local left
  left=$(look "$1" '.holders[0].expires_in_ms')
  ((left <= left_before)) || return 0
  left_before=$left
  return 1
}
is_queued() {  # <name> <pid>
  local status
  status=$(dlock status --json "$1")
  [[ ${status#*'"waiters":'} == *"\"pid\":$2,"* ]]
}

# For commands of holders and waiters: writes when they ran, in milliseconds, for
# `ms_between`.
clock_into() {  # <file>
  echo "${EPOCHREALTIME/[.,]/}" > "$1"
}
export -f clock_into

ms_between() {  # <file> <file>
  echo $((($(< "$2") - $(< "$1")) / 1000))
}

# Asserts that a number lies between two others.
assert_between() {  # <number> <least> <most>
  (($1 >= $2 && $1 <= $3)) || { echo "$1 is not between $2 and $3" >&2; return 1; }
}

needs_root() {
  ((EUID == 0)) || skip 'only root can arrange this'
}

needs_user_namespace() {
  unshare --map-root-user true 2> /dev/null || skip 'this user may make no user namespace'
}

# Makes a mount namespace for `inside`, with an empty /mnt that everyone can enter: the
# directories of the test are closed to other users.
use_private_mounts() {
  needs_root
  unshare --mount --propagation private sleep 600 3>&- &
  mounts=$!
  eventually other_mounts "$mounts"
  inside mount -t tmpfs -o mode=755 none /mnt
}

other_mounts() { ! [[ /proc/$1/ns/mnt -ef /proc/self/ns/mnt ]]; }

# Runs a command in that mount namespace.
inside() {
  nsenter --target "$mounts" --mount -- "$@"
}

# Prints a path for use outside the mount namespace.
from_outside() {
  echo "/proc/$mounts/root$1"
}
