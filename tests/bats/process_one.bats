#!/usr/bin/env bats
# dlock as the first process of a container.

setup() {
  load support
  ((EUID == 0)) || needs_user_namespace
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

# Runs a command as process 1 in a new PID namespace, and exits as it does.
as_first() {  # <command>...
  local user=()
  ((EUID == 0)) || user=(--map-root-user)
  env --default-signal timeout --foreground 20 \
    unshare "${user[@]}" --pid --fork --kill-child --mount-proc "$@"
}

# The same in the background. Sets $outside to the pid of unshare, and $first to the pid
# that process 1 has in the namespace of the test.
start_as_first() {  # <command>...
  local user=()
  ((EUID == 0)) || user=(--map-root-user)
  env --default-signal unshare "${user[@]}" --pid --fork --kill-child --mount-proc "$@" 3>&- &
  outside=$!
  eventually has_child "$outside"
  first=$(pgrep -P "$outside")
}

has_child() { pgrep -P "$1"; }

# Runs a command and prints how it ended, as wait(2) reports it.
how_it_ends() {  # <command>...
  perl -e 'system { $ARGV[0] } @ARGV; print $? & 127 ? "signal " . ($? & 127) : "exit " . ($? >> 8), "\n"' "$@"
}
export -f how_it_ends as_first

@test "as process 1, dlock exits as the command does, or with 128 + N if signal N killed it, and frees the lock" {
  run as_first dlock run job -- sh -c 'ps -o comm= -p 1; exit 7'
  assert_equal "$status $output" '7 dlock'
  is_free job

  for signal in HUP TERM KILL SEGV; do
    run how_it_ends bash -c 'as_first "$@"' - dlock run job -- sh -c "ulimit -c 0; kill -$signal \$\$"
    assert_equal "$output" "exit $((128 + $(kill -l $signal)))"
  done

  status=0
  as_first dlock run job -- ./no-such-command 2> /dev/null || status=$?
  assert_status 127
}

@test "as process 1, dlock and runs outside the container exclude each other, and wait for each other" {
  start_as_first dlock run job -- sh -c 'touch started; until [ -e finish ]; do sleep 0.05; done'
  eventually test -e started
  first_container=$outside
  run dlock run job -- true
  assert_status 75

  # One in another container, and one outside.
  start_as_first dlock run -w forever job -- touch ran
  eventually somebody_waits job
  touch finish
  assert_exits 0 "$first_container"
  assert_exits 0 "$outside"
  test -e ran

  hold job
  run as_first dlock run job -- true
  assert_status 75
  start_as_first dlock run -w forever job -- touch ran-again
  eventually somebody_waits job
  let_go
  assert_exits 0 "$outside"
  test -e ran-again
}

@test "as process 1, dlock gets the lock of a container that was killed" {
  start_as_first dlock run -w 30s --ttl 2s job -- sh -c 'touch started; exec sleep 60'
  eventually test -e started
  killed=$first
  start_as_first dlock run -w forever job -- touch ran
  eventually somebody_waits job

  kill -KILL "$killed"

  assert_exits 0 "$outside"
  test -e ran
}

@test "as process 1, dlock reaps orphaned processes, and exits as the command does even if they end first" {
  run as_first dlock run job -- sh -c '
    for _ in 1 2 3 4 5; do (setsid sh -c "echo \$\$ >> others; exit 3" &); done
    until [ "$(cat others 2> /dev/null | wc -l)" = 5 ]; do sleep 0.02; done
    tries=0
    for other in $(cat others); do
      while [ -e "/proc/$other" ]; do
        tries=$((tries + 1))
        [ $tries -lt 500 ] || exit 9
        sleep 0.02
      done
    done
    exit 7'

  assert_status 7
}

@test "as process 1, dlock forwards signals" {
  start_as_first dlock run job -- perl -e '
    $SIG{$_} = sub { open my $file, ">", "got-$_[0]" } for qw(HUP INT USR1 USR2 WINCH);
    $SIG{TERM} = sub { exit 9 };
    open my $file, ">", "started";
    sleep 60 while 1'
  eventually test -e started

  for signal in HUP INT USR1 USR2 WINCH; do
    kill -s "$signal" "$first"
    eventually test -e "got-$signal"
  done
  kill -TERM "$first"
  assert_exits 9 "$outside"
}

@test "as process 1, a waiting dlock ends at once on SIGTERM" {
  hold job
  start_as_first dlock run -w forever job -- touch ran
  eventually somebody_waits job

  kill -TERM "$first"

  assert_exits 143 "$outside"
}

@test "as process 1, --timeout kills daemons too, and --stragglers wait waits for them" {
  run as_first dlock run --timeout 300ms --kill-after 100ms job -- sh -c '
    trap "" TERM
    (setsid sleep 60 &)
    sleep 60'
  assert_status 124
  no_leftovers

  run as_first dlock run --stragglers wait job -- sh -c '
    (setsid sh -c "sleep 0.2; touch over" > /dev/null 2>&1 &)'
  assert_status 0
  test -e over
}

# Runs a command below a process 1 that reaps no other process, and prints the processes that
# are left when the command has ended.
left_behind() {  # <command>...
  as_first perl -e 'system @ARGV; opendir my $all, "/proc" or die;
    print "$_\n" for grep { /^\d+$/ && $_ != 1 } readdir $all' "$@" 2> said
}

@test "a run leaves no processes behind that process 1 would have to reap" {
  hold job

  run left_behind dlock run another -- true
  assert_equal "$output" ''
  # The lock is held, so the guardian is killed, sometimes while it creates the command's
  # process.
  for _ in {1..6}; do
    run left_behind dlock run job -- true
    assert_equal "$output" ''
  done
  run left_behind dlock run -w 200ms job -- true
  assert_equal "$output" ''
  [[ -s said ]]
}
