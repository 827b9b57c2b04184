#!/usr/bin/env bats
# --timeout: commands that take too long are killed with their whole process tree.

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  # What reads it waits for a signal, without a process. For a time: bash misses a signal that comes right before the read.
  export silence
}

# Creates `tree`, a command whose children and grandchildren write their pids to the file
# `pids`. Some of them are daemons, and some ignore SIGTERM, as the first process does unless the
# argument says otherwise. It creates the file `ready` when all are there.
make_tree() {
  cat > tree << 'END'
#!/bin/bash
lives() { echo "$BASHPID" >> pids; while :; do read -rt 0.2 <> "$silence"; done; }
deaf() { trap '' TERM; lives; }
export -f lives deaf
(lives) &
(deaf) &
(deaf & deaf) &
(setsid bash -c 'trap "" TERM; (deaf) & lives' < /dev/null > /dev/null 2>&1 &)
[[ $1 == willing ]] || trap '' TERM
until mapfile -t all 2> /dev/null < pids; ((${#all[@]} == 6)); do read -rt 0.01 <> "$silence"; done
: > ready
lives
END
  chmod +x tree
}

# Runs dlock. Sets $status to its exit code, $output to its output, and $took to how many
# milliseconds it took.
run_timed() {
  local begin
  begin=$(now_ms)
  status=0
  timeout -s KILL 60 dlock "$@" > output 2>&1 < /dev/null 3>&- || status=$?
  took=$(($(now_ms) - begin))
  output=$(< output)
}

# The same with a time limit of $limit milliseconds in which the command created the file `ready`:
# on a slow machine it may not come so far in time, and the next one gets longer.
time_out_when_ready() {  # <what runs dlock> <argument>...
  for limit in 500 2500 20000; do
    rm -f ready pids
    "$1" run --timeout "${limit}ms" "${@:2}"
    [[ ! -e ready ]] || return 0
  done
}

all_dead() {
  local pid
  for pid in $(< pids); do has_ended "$pid" || return; done
}

@test "a command that takes longer than --timeout exits with 124 and one line, -q or not, and the lock is free" {
  for options in '--timeout 200ms' '-q --timeout 0.2'; do
    # shellcheck disable=SC2086
    run_timed run $options job -- sh -c 'sleep 60; touch went_on'

    assert_message 124
    assert_between "$took" 200 20000
    [[ ! -e went_on ]]
    run dlock status --json job
    assert_equal "$(json '"\(.state) \(.last_run.outcome)"')" 'free timeout'
  done
}

@test "a command that times out gets SIGTERM, and SIGKILL only after --kill-after, and -v says how it ended" {
  time_out_when_ready run_timed -v -k 30s job -- sh -c 'trap "echo asked; exit 0" TERM; : > ready; sleep 60 & wait'
  assert_status 124
  assert_output_contains asked
  assert_between "$took" "$limit" $((limit + 25000))
  grep -qE '^dlock: job: stopped after [0-9.]+m?s by SIGTERM; the command exited with 0$' output

  time_out_when_ready run_timed -v -k 300ms job -- sh -c 'trap "" TERM; : > ready; exec sleep 60'
  assert_status 124
  assert_between "$took" $((limit + 300)) $((limit + 30000))
  grep -qE '^dlock: job: stopped after [0-9.]+m?s by SIGTERM, then SIGKILL after 300ms; the command was killed by SIGKILL$' output

  # It is continued, so that it ends at once.
  time_out_when_ready run_timed -v -k 30s job -- sh -c ': > ready; kill -STOP $$; sleep 60'
  assert_status 124
  assert_between "$took" "$limit" $((limit + 25000))
  grep -qE '^dlock: job: stopped after [0-9.]+m?s by SIGTERM; the command was killed by SIGTERM$' output
}

run_on_terminal() {  # <dlock's arguments>...
  status=0
  SHELL=/bin/sh TERM=dumb timeout -s KILL 60 script -qec "exec dlock $*" /dev/null < /dev/null > screen 3>&- || status=$?
}

@test "the whole process tree is killed, with daemons and what ignores SIGTERM, even if the command exits on it" {
  make_tree
  for run in run_timed run_on_terminal; do
    for kind in deaf willing; do
      time_out_when_ready "$run" --kill-after 200ms job -- ./tree "$kind"

      assert_equal "$run $kind $status" "$run $kind 124"
      test -e ready
      all_dead
      no_leftovers
    done
  done
}

@test "on a terminal, other commands of the same shell are spared" {
  SHELL=/bin/sh TERM=dumb timeout -s KILL 60 script -qec 'sleep 60 & echo $! > other
    dlock run --timeout 200ms --kill-after 100ms job -- sh -c "sleep 60 & sleep 60"
    kill -0 $(cat other) && touch spared; kill $(cat other)' /dev/null < /dev/null > screen 3>&- || true

  test -e spared
}

asked_or_over() { [[ -e asked ]] || has_ended "$1"; }  # <pid of dlock>

@test "the lock is held until the whole process tree has ended" {
  for limit in 500ms 3s 20s; do
    dlock run --timeout "$limit" --kill-after 60s job -- bash -c '
      trap ": > asked" TERM
      while :; do read -rt 0.2 <> "$silence"; done' 3>&- &
    eventually asked_or_over $!
    [[ ! -e asked ]] || break
  done

  never_within 300 has_ended $!
  is_held job
}

@test "a command that ends in time keeps its exit code, whatever it leaves behind" {
  run_timed run --timeout 30s job -- sh -c 'sleep 60 > /dev/null 2>&1 < /dev/null & exit 5'

  assert_equal "$status $output" '5 '
  assert_between "$took" 0 25000
}

@test "--timeout counts from the start of the command, not from the start of the wait" {
  hold job
  dlock run -w 60s --timeout 2s job -- true 3>&- &
  waiter=$!
  eventually is_queued job "$waiter"
  never_within 2200 has_ended "$waiter"

  let_go

  assert_exits 0 "$waiter"
}

@test "a command that exits on a forwarded SIGTERM before the time-out keeps its exit code" {
  env --default-signal setsid dlock run --timeout 20s job -- bash -c '
    trap "exit 9" TERM; touch started; while :; do read -rt 0.2 <> "$silence"; done' 3>&- &
  eventually test -e started

  kill -TERM $!

  assert_exits 9 $!
}

# --- Which processes get SIGTERM ---

# Runs the script on standard input for a while, on its own terminal or without one. What it prints
# is in the file `printed`. Processes that SIGTERM does not reach run for a minute. On a slow
# machine the script may not get far enough to print `up` so often; the next one gets longer.
run_briefly() {  # <terminal or none> [<how often>]
  cat > script
  for limit in 300ms 2500ms 10s; do
    local run="exec dlock run --timeout $limit --kill-after 60s job -- bash ./script"
    status=0
    if [[ $1 == terminal ]]; then
      TERM=dumb SHELL=/bin/sh timeout -s KILL 60 script -qec "$run" /dev/null
    else
      timeout -s KILL 60 setsid -w sh -c "$run"
    fi < /dev/null > printed 2>&1 3>&- || status=$?
    (($(times_printed up) < ${2:-0})) || break
  done
}

times_printed() { grep -c "$1" printed || true; }

@test "SIGTERM reaches each process once, also those whose parents it ends first" {
  # A bash that starts can lose a signal, so all that may get it are in Perl. After the first one
  # each of them waits for a second one.
  cat > told << 'END'
#!/usr/bin/perl
$| = 1; $SIG{TERM} = sub { print "told\n"; $told = 1 };
print "up\n"; sleep 60 until $told; select undef, undef, undef, 0.3;
END
  chmod +x told
  for place in none terminal none terminal; do
    run_briefly "$place" 12 << 'END'
for i in {1..9}; do sh -c 'setsid ./told & exec sleep 60' & done
./told & (./told &) & setsid ./told &
wait
END

    assert_status 124
    assert_equal "$place $(times_printed up) $(times_printed told)" "$place 12 12"
  done
}

@test "SIGTERM also reaches processes that are started at that moment" {
  cat > forks << 'END'
#!/usr/bin/perl
print "up\n"; close STDOUT;
while (1) { for (["setsid"], []) { fork // die or exec @$_, "sleep", "60" } select undef, undef, undef, 0.01 }
END
  # It has got the signal, and blocks it while it forks, as a shell does.
  cat > forks_late << 'END'
#!/usr/bin/perl
use POSIX;
my ($term, $pending) = (POSIX::SigSet->new(SIGTERM), POSIX::SigSet->new);
sigprocmask SIG_BLOCK, $term;
print "up\n"; close STDOUT;
do { select undef, undef, undef, 0.03; sigpending $pending } until $pending->ismember(SIGTERM);
fork // die; sigprocmask SIG_UNBLOCK, $term; sleep 60;
END
  chmod +x forks forks_late
  for place in none terminal none terminal; do
    run_briefly "$place" 6 << 'END'
for i in 1 2 3; do ./forks & done
./forks_late & setsid ./forks_late &
exec ./forks_late
END

    assert_status 124
  done
}

@test "processes that a command starts on SIGTERM to clean up do not get SIGTERM" {
  for place in none terminal; do
    # It forks before it sets the trap: a bash that has just been forked loses a signal that has a trap.
    run_briefly "$place" 1 << 'END'
for i in {1..80}; do sleep 60 & done
trap 'for i in {1..10}; do sh -c "sleep 0.01; echo clean"; setsid sh -c "sleep 0.01; echo clean"; done; exit' TERM
echo up
while :; do read -rt 0.2 <> "$silence"; done
END

    assert_equal "$place $(times_printed clean)" "$place 20"
  done
}
