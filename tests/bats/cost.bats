#!/usr/bin/env bats
# The cost of dlock itself, in system calls, page faults, and calls of its scripts on a server.
# Unlike time, these hardly depend on what else the machine does. The tests are only for what users
# install, the static release build.
#
# The bounds are the counted numbers and a fifth more, because dlock polls more often on a busy
# machine, and other kernels map other numbers of pages. If a change adds a call on purpose,
# raise the bound; a failed test lists the calls.

setup() {
  load support
  load ../faults/redis
  trace=$BATS_TEST_TMPDIR/trace
  calls=$BATS_TEST_TMPDIR/calls
  cd "$BATS_TEST_TMPDIR" || return
}

# Counts the system calls of dlock and its guardian before, beside and after the command
# /bin/true or /bin/sleep. Each line has a phase, a call and its number. If no command runs,
# there is only the first phase.
calls_by_phase() {
  awk '
    BEGIN { phase = "before" }
    $2 ~ /^execve\("\/bin\/(true|sleep)"/ { command = $1; phase = "beside"; next }
    $1 == command && /\+\+\+ exited/ { phase = "after" }
    # How often it polls depends on how busy the machine is.
    / = -1 EAGAIN/ || $2 ~ /^(epoll_wait|sched_yield)\(/ { next }
    $1 != command && $2 ~ /^[a-z0-9_]+\(/ { sub(/\(.*/, "", $2); ++count[phase " " $2] }
    END { for (what in count) print what, count[what] }' "$trace"
}

# Prints how many calls dlock makes in a phase, or in all of them.
sum_of() { awk -v phase="$1" 'phase == "all" || $1 == phase { n += $3 } END { print n + 0 }'; }

# Runs dlock, and writes the calls to the file `calls`.
count_calls() {  # <dlock's arguments>...
  # Without a terminal, which would cost more calls.
  setsid -w timeout 60 strace -f -q -e signal=none "${strace_options[@]}" -o "$trace" dlock "$@" \
    > /dev/null 2>&1 < /dev/null 3>&- || true
  calls_by_phase > "$calls"
}

# Prints the second lowest of nine results of a command: on a busy machine dlock polls more often, and
# one lucky run says nothing.
low() {  # <command>...
  for _ in {1..9}; do "$@"; done | sort -n | sed -n 2p
}

calls_of_run() {  # <phase, or all> <dlock's arguments>...
  count_calls "${@:2}"
  sum_of "$1" < "$calls"
}

# Asserts that dlock makes at most a fifth more calls than were counted. Runs differ in how often it
# polls beside the command, and a reply that is not there at once costs more calls.
# If there are less than half of the calls, the traces are not those of complete runs.
assert_calls() {  # <phase, or all> <counted> <dlock's arguments>...
  local is most=$((($2 * 120 + 99) / 100))
  is=$(low calls_of_run "$1" "${@:3}")
  if ((is <= most && is >= $2 / 2)); then return; fi
  {
    echo "$is system calls ($1), not $2 and at most $most; those of the last run:"
    sort -k 1,1 -k 3,3nr "$calls"
  } >&2
  return 1
}

# Prints the page faults of a command and of all its children that it reaps, as the kernel
# counts them for the shell that starts it, minus those of /bin/true.
page_faults() {  # <command>...
  bash -c 'child_faults() { local line; read -r line < "/proc/$$/stat"; set -- ${line##*) }; faults=$9; }
    child_faults; first=$faults
    /bin/true; child_faults; second=$faults
    "$@"; child_faults; echo $((faults - second - (second - first)))' - "$@"
}

# The first runs create the files and everything else that is created once.
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

# Asserts how many calls there are before the start of a command, after its end, and together.
# On a busy machine, /bin/true ends while dlock is still busy with its start, which would count as
# after its end. The command of the first two therefore takes longer.
assert_calls_of_run() {  # <before> <after> <all>
  assert_calls before "$1" run job -- /bin/sleep 0.2
  assert_calls after "$2" run job -- /bin/sleep 0.2
  assert_calls all "$3" run job -- /bin/true
}

@test "a local run makes few system calls before and after its command, and so do status and a run that is refused" {
  use_warm_local_store

  # A release opens the file of the lock again, because it may be a different one by then.
  assert_calls_of_run 87 31 126
  assert_calls all 74 status job
  hold job
  assert_calls all 98 run job -- /bin/true
}

# Each change writes the state and the head of its file. After 20 ms, dlock also stores the pid
# of the command, so no timer may fire here: any run is a short one.

@test "a short local run changes the state of its lock twice" {
  use_warm_local_store

  strace_options=(-e inject=timerfd_settime:retval=0)
  count_calls run job -- /bin/true
  assert_equal "$(awk '$2 == "pwrite64" { n += $3 } END { print n }' "$calls")" 4
}

@test "a run on a server makes few system calls before and after its command, and so do status and a run that is refused" {
  use_warm_server

  # /proc is opened twice, root has a cgroup, and the guardian watches for the end of dlock.
  assert_calls_of_run 120 31 172
  assert_calls all 50 status job
  hold job
  assert_calls all 130 run job -- /bin/true
}

@test "the scripts of a run on a server make few calls" {
  use_warm_server
  start_monitor "$trace"

  dlock run job -- /bin/true
  told > /dev/null

  # Seven to grant the idle lock, and nine to release it.
  assert_between "$(grep -c ' lua\] ' "$trace")" 10 16
}

# Asserts that the process that reaps the command makes its last call of this kind before.
assert_reaps_after() {  # <system call>
  timeout 60 strace -f -q -e trace="wait4,$1" -e signal=none -o "$trace" \
    dlock run job -- /bin/sh -c 'exit 3' > /dev/null 2>&1 3>&- || [[ $? == 3 ]]
  awk -v call="$1" '
    index($2, call "(") == 1 { last[$1] = NR }
    /WEXITSTATUS\(s\) == 3/ && !reaped { reaper = $1; reaped = NR }
    END { exit !(reaped && last[reaper] && last[reaper] < reaped) }' "$trace" || {
    cat "$trace"
    return 1
  } >&2
}

@test "the lock is released before the command is reaped, because that takes time" {
  use_warm_local_store

  assert_reaps_after pwrite64
}

@test "a guardian reports the end of the command to dlock before it reaps the command" {
  use_warm_server

  assert_reaps_after sendto
}

# Prints their second lowest number.
usual_page_faults() { low page_faults "$@" 3>&-; }  # <command>...

@test "a local run causes few page faults" {
  use_warm_local_store

  # 70 were counted on Debian 12, and 86 on Debian 13; some copies of the same program cause up to
  # three more. There are 97 without cmake/link_order.txt or without lld.
  assert_between "$(usual_page_faults dlock run job -- /bin/true)" 40 90
}

# If it fails: cmake/link_order.
@test "the linker finds nearly all names of the order of functions and data" {
  local order=$DLOCK_SOURCE/cmake/link_order.txt
  nm "$DLOCK_BIN" | awk '{ print $NF }' | LC_ALL=C sort -u > names
  LC_ALL=C sort -u "$order" > ordered

  assert_between "$(comm -23 ordered names | wc -l)" 0 $(($(wc -l < ordered) / 5))
}

# Nothing uses the streams of libstdc++, so static_stubs.cpp leaves them out.
@test "the program does not touch std::cout and its siblings" {
  nm -C "$(dirname "$DLOCK_BIN")/libdlock_core.a" > names 2> /dev/null

  grep -q ' U std::' names
  run grep -E ' U std::w?c(in|out|err|log)$' names
  assert_equal "$output" ''
}

@test "options cause few more page faults" {
  use_warm_local_store
  local without with
  without=$(usual_page_faults dlock run job -- /bin/true)
  with=$(usual_page_faults dlock run --wait 5s --quiet --label x job -- /bin/true)

  # 18 were counted, because CLI11 creates an object for each option of the verb.
  assert_between $((with - without)) 0 21
}

@test "a local run reads only the boot ID from /proc" {
  use_warm_local_store

  timeout 60 strace -f -q -e trace=file -o "$trace" dlock run job -- /bin/true 3>&-

  grep -q boot_id "$trace"
  # Before Linux 6.11, only /proc identifies the pid namespace.
  assert_equal "$(grep '"/proc/' "$trace" | grep -v -e /boot_id -e /ns/pid)" ''
}

@test "a usage error causes few page faults" {
  use_private_store
  local faults
  faults=$(page_faults dlock run --no-such-option 2> /dev/null 3>&-)

  # No more than for /bin/true were counted. There were 100 more when the first exception had
  # to sort all stack frame descriptions of the program.
  assert_between "$faults" -25 50
}
