#!/usr/bin/env bats
# What dlock itself costs around a command, counted and not timed: system calls and page
# faults, for which it does not matter what else the machine does. Only for what users
# install: the static release build.
#
# The bounds are what was counted and a fifth more, for on a busy machine dlock looks more
# often, and other kernels map other numbers of pages. Who adds a call on purpose
# raises them; the failure has the list.
# shellcheck disable=SC2154  # hold sets holder

setup() {
  load support
  load ../faults/locks
  load ../faults/redis
  trace=$BATS_TEST_TMPDIR/trace
}

teardown() {
  stop_redis
  kill_leftovers
}

# Counts the calls that dlock and its guardian make before, beside and after the command
# /bin/true: lines of a phase, a call and how often. A run that has no command has only the
# first phase.
calls_by_phase() {
  awk '
    BEGIN { phase = "before" }
    $2 ~ /^execve\("\/bin\/true"/ { command = $1; phase = "beside"; next }
    $1 == command && /\+\+\+ exited/ { phase = "after" }
    $1 != command && $2 ~ /^[a-z0-9_]+\(/ { sub(/\(.*/, "", $2); ++count[phase " " $2] }
    END { for (what in count) print what, count[what] }' "$trace"
}

# Prints how many calls dlock makes in a phase, or in `all`.
sum_of() { awk -v phase="$1" 'phase == "all" || $1 == phase { n += $3 } END { print n + 0 }'; }

# Runs dlock five times, and puts the list of the calls of each run into a file: what is
# done beside the command may take another look or two.
count_calls() {  # <dlock's arguments>...
  local try
  for try in 1 2 3 4 5; do
    # A terminal would be asked about.
    setsid -w timeout 20 strace -f -q -e signal=none -o "$trace" dlock "$@" \
      > /dev/null 2>&1 < /dev/null 3>&- || true
    calls_by_phase > "$BATS_TEST_TMPDIR/calls.$try"
  done
}

# Asserts that in the best of these runs dlock makes not many more calls than were counted,
# and not so few that they cannot be what was meant to be counted.
assert_calls() {  # <phase, or all> <counted>
  local try is best least='' most=$((($2 * 120 + 99) / 100))
  for try in "$BATS_TEST_TMPDIR"/calls.?; do
    is=$(sum_of "$1" < "$try")
    if [[ -z $least ]] || ((is < least)); then least=$is best=$try; fi
  done
  ((least <= most && least >= $2 / 2)) || {
    echo "$least system calls ($1), not $2 and at most $most:"
    sort -k 1,1 -k 3,3nr "$best"
    return 1
  } >&2
}

# The page faults of a command and all that it waits for, as the kernel counts them for
# the shell that starts it; less those of /bin/true alone.
page_faults() {  # <command>...
  # shellcheck disable=SC2016
  bash -c 'child_faults() { local line; read -r line < "/proc/$$/stat"; set -- ${line##*) }; faults=$9; }
    child_faults; first=$faults
    /bin/true; child_faults; second=$faults
    "$@"; child_faults; echo $((faults - second - (second - first)))' - "$@"
}

# The first runs make the files, and fill what is filled once.
use_warm_local_store() {
  use_private_store
  dlock run job -- /bin/true
  dlock run job -- /bin/true
}

use_warm_server() {
  use_redis_store
  dlock run job -- /bin/true
  dlock run job -- /bin/true
}

@test "an embedded run makes few system calls before its command begins and after it ended" {
  use_warm_local_store

  count_calls run job -- /bin/true

  # To give the lock back its file is opened anew, for it may be another one by then.
  assert_calls before 86
  assert_calls after 29
  assert_calls all 127
}

@test "a run on a server makes few system calls before its command begins and after it ended" {
  use_warm_server

  count_calls run job -- /bin/true

  # /proc is opened twice, and as root there is a cgroup; the guardian hears of dlock's end.
  assert_calls before 120
  assert_calls after 31
  assert_calls all 172
}

@test "a look at a lock makes few system calls" {
  use_warm_local_store

  count_calls status job

  assert_calls all 60
}

@test "a look at a lock on a server makes few system calls" {
  use_warm_server

  count_calls status job

  assert_calls all 50
}

@test "a run that finds its lock taken makes few system calls" {
  use_warm_local_store
  hold job

  count_calls run job -- /bin/true

  assert_calls all 98
}

@test "a run that finds its lock taken on a server makes few system calls" {
  use_warm_server
  hold job

  count_calls run job -- /bin/true

  assert_calls all 115
}

# Asserts that the process that reaps the command has made all its system calls of one kind
# before.
assert_reaps_after() {  # <system call>
  timeout 20 strace -f -q -e trace="wait4,$1" -e signal=none -o "$trace" \
    dlock run job -- /bin/sh -c 'exit 3' > /dev/null 2>&1 3>&- || [[ $? == 3 ]]
  awk -v call="$1" '
    index($2, call "(") == 1 { last[$1] = NR }
    /WEXITSTATUS\(s\) == 3/ && !reaped { reaper = $1; reaped = NR }
    END { exit !(reaped && last[reaper] && last[reaper] < reaped) }' "$trace" || {
    cat "$trace"
    return 1
  } >&2
}

@test "a command is reaped when the lock is free again, for to reap it takes time" {
  use_warm_local_store

  assert_reaps_after pwrite64
}

@test "a guardian reaps the command when it has told dlock of its end" {
  use_warm_server

  assert_reaps_after sendto
}

# The fewest page faults in five runs.
least_page_faults() {  # <command>...
  local try faults least=1000000
  for try in 1 2 3 4 5; do
    faults=$(page_faults "$@" 3>&-)
    least=$((faults < least ? faults : least))
  done
  echo "$least"
}

@test "an embedded run touches few pages of memory" {
  use_warm_local_store

  # 95 were counted.
  assert_between "$(least_page_faults dlock run job -- /bin/true)" 40 99
}

@test "options touch few pages more" {
  use_warm_local_store
  local without with
  without=$(least_page_faults dlock run job -- /bin/true)
  with=$(least_page_faults dlock run --wait 5s --quiet --label x job -- /bin/true)

  # 18 were counted: CLI11 makes an object of each option of the verb.
  assert_between $((with - without)) 0 21
}

@test "an embedded run reads nothing of /proc but what the boot is called" {
  use_warm_local_store

  timeout 20 strace -f -q -e trace=file -o "$trace" dlock run job -- /bin/true 3>&-

  grep -q boot_id "$trace"
  # Before Linux 6.11 only /proc knows the namespace of pids.
  assert_equal "$(grep '"/proc/' "$trace" | grep -v -e /boot_id -e /ns/pid)" ''
}

@test "an error costs little memory" {
  use_private_store
  local faults
  faults=$(page_faults dlock run --no-such-option 2> /dev/null 3>&-)

  # As many as for /bin/true were counted, and 100 more when the first exception had to sort
  # all frames of the program.
  assert_between "$faults" -25 50
}
