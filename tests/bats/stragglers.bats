#!/usr/bin/env bats
# --stragglers: what happens to processes that outlive their command, and to its lock.
# shellcheck disable=SC2016  # the commands' own variables

setup() {
  load support
  load ../faults/locks
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  make_commands
}

teardown() { kill_leftovers; }

refute() { ! "$@"; }

# Creates `straggler`, which writes its pid to the file that its argument names and keeps
# running, and `starts`, a command that leaves such processes behind and exits with 5. The
# arguments of both are kinds of stragglers: plain; daemon, in its own session without a
# parent; stubborn, which ignores SIGTERM and SIGUSR1; stopped; heir, which starts another one
# on SIGTERM.
make_commands() {
  cat > straggler << 'END'
#!/bin/bash
exec 2> /dev/null
case $1 in
  *stubborn) trap '' TERM USR1 ;;
  *heir) trap './straggler stubborn; exit' TERM ;;
  *) trap 'echo "$1" > termed; exit' TERM ;;
esac
echo $$ > "$1.new" && mv "$1.new" "$1"
[[ $1 != *stopped ]] || kill -STOP $$
until [[ -e finish ]]; do sleep 0.05; done
END
  cat > starts << 'END'
#!/bin/bash
echo $$ > command
for kind; do
  case $kind in
    daemon*) (setsid ./straggler "$kind" < /dev/null > /dev/null 2>&1 &) ;;
    *) ./straggler "$kind" & ;;
  esac
done
for kind; do until [[ -e $kind ]]; do sleep 0.05; done; done
exit 5
END
  chmod +x straggler starts
}

# Runs a command to its end, for at most 20 s, and sets $status to its exit code.
run_to_end() {  # <command>...
  status=0
  timeout -s KILL 20 "$@" 3>&- || status=$?
}

is_alive() { refute has_ended "$(< "$1")"; }  # <kind of straggler, or command>

is_dead() { has_ended "$(< "$1")"; }  # <kind of straggler, or command>

@test "by default, a straggler keeps running" {
  run_to_end dlock run job -- ./starts plain

  is_alive plain
}

@test "by default, the lock is free when the command ends, even if there are stragglers" {
  run_to_end dlock run job -- ./starts plain daemon

  is_free job
}

@test "by default, a straggler does not block the next run" {
  run_to_end dlock run job -- ./starts plain

  run dlock run job -- echo ran

  assert_equal "$status $output" '0 ran'
}

@test "by default, the exit code is that of the command" {
  run_to_end dlock run job -- ./starts plain

  assert_status 5
}

@test "--stragglers leave does the same as the default" {
  run_to_end dlock run --stragglers leave job -- ./starts plain

  is_alive plain
  is_free job
}

@test "--stragglers wait holds the lock until the last straggler has ended" {
  dlock run --stragglers wait job -- ./starts plain 3>&- &
  eventually test -e plain

  eventually is_dead command
  is_held job

  touch finish
  assert_exits 5 $!
}

@test "--stragglers wait also waits for a daemon" {
  dlock run --stragglers wait job -- ./starts daemon 3>&- &
  eventually test -e daemon

  never_within 300 has_ended $!

  touch finish
  assert_exits 5 $!
}

@test "--stragglers wait releases the lock" {
  touch finish

  run_to_end dlock run --stragglers wait job -- ./starts plain

  is_free job
}

@test "--stragglers wait forwards signals to stragglers" {
  env --default-signal setsid dlock run --stragglers wait job -- ./starts plain 3>&- &
  dlock=$!
  eventually test -e plain
  eventually is_dead command

  kill -TERM "$dlock"

  assert_exits 5 "$dlock"
  assert_equal "$(< termed)" plain
}

signal_kills_daemon() {  # <pid of dlock>
  kill -USR1 "$1"
  is_dead daemon
}

@test "--stragglers wait kills stragglers after --kill-after if they ignore a forwarded SIGTERM" {
  env --default-signal setsid dlock run --stragglers wait --kill-after 300ms job -- \
    ./starts daemon stubborn 3>&- &
  dlock=$!
  eventually test -e stubborn
  eventually is_dead command
  # A signal reaches the daemon only once dlock has noticed the end of the command.
  eventually signal_kills_daemon "$dlock"

  kill -TERM "$dlock"

  assert_exits 5 "$dlock"
  is_dead stubborn
}

@test "--stragglers wait does not wait if there are no stragglers" {
  run_to_end dlock run --stragglers wait job -- sh -c 'exit 5'

  assert_status 5
}

@test "--stragglers kill ends stragglers" {
  run_to_end dlock run --stragglers kill job -- ./starts plain

  is_dead plain
}

@test "--stragglers kill sends SIGTERM first" {
  run_to_end dlock run --stragglers kill job -- ./starts plain

  assert_equal "$(< termed)" plain
}

@test "--stragglers kill does not wait for --kill-after if SIGTERM is enough" {
  begin=$(now_ms)
  run_to_end dlock run --stragglers kill --kill-after 15s job -- ./starts plain daemon

  assert_between $(($(now_ms) - begin)) 0 5000
}

@test "--stragglers kill ends daemons" {
  run_to_end dlock run --stragglers kill job -- ./starts daemon

  is_dead daemon
}

@test "--stragglers kill ends stragglers that ignore SIGTERM" {
  run_to_end dlock run --stragglers kill --kill-after 200ms job -- ./starts stubborn daemon-stubborn

  is_dead stubborn
  is_dead daemon-stubborn
}

@test "--stragglers kill waits for --kill-after if stragglers ignore SIGTERM" {
  begin=$(now_ms)
  run_to_end dlock run --stragglers kill --kill-after 500ms job -- ./starts stubborn

  assert_between $(($(now_ms) - begin)) 500 5000
}

@test "--stragglers kill ends stopped stragglers" {
  run_to_end dlock run --stragglers kill --kill-after 15s job -- ./starts stopped daemon-stopped

  is_dead stopped
  is_dead daemon-stopped
}

@test "--stragglers kill ends stragglers that are started meanwhile" {
  run_to_end dlock run --stragglers kill --kill-after 300ms job -- ./starts daemon-heir

  is_dead stubborn
  no_leftovers
}

@test "--stragglers kill holds the lock until all stragglers have ended" {
  dlock run --stragglers kill --kill-after 60s job -- ./starts stubborn 3>&- &
  dlock=$!
  eventually test -e stubborn

  never_within 300 is_free job
  kill -KILL "$(< stubborn)"

  assert_exits 5 "$dlock"
}

@test "--stragglers kill releases the lock" {
  run_to_end dlock run --stragglers kill job -- ./starts plain

  is_free job
}

@test "--stragglers kill does not change the exit code" {
  run_to_end dlock run --stragglers kill job -- ./starts plain daemon

  assert_status 5
}

@test "--stragglers kill does not hide that a signal killed the command" {
  run_to_end dlock run --stragglers kill job -- sh -c './starts plain; kill -USR1 $$'

  assert_status 138
}

@test "--stragglers kill prints nothing" {
  run_to_end dlock run --stragglers kill job -- ./starts plain > said 2>&1

  assert_equal "$(< said)" ''
}

@test "--stragglers kill spares processes that are older than the command" {
  run_to_end bash -c './straggler plain & until [[ -e plain ]]; do sleep 0.05; done
    exec dlock run --stragglers kill --kill-after 100ms job -- true'

  is_alive plain
}

@test "ending an orphan of a process that is older than the command spares the rest of its session" {
  export DLOCK_STORE=local:$BATS_TEST_TMPDIR/embedded # on a server, the orphan is spared as well
  cat > older << 'END'
#!/bin/bash
(until [[ -e begun ]]; do sleep 0.05; done; ./starts stubborn; :) &
exec ./straggler plain
END
  cat > await-orphan << 'END'
#!/bin/bash
touch begun
until [[ -e stubborn && $(< "/proc/$(< stubborn)/status") == *$'\nPPid:\t'$PPID$'\n'* ]]; do
  sleep 0.01
done
END
  chmod +x older await-orphan

  run_to_end bash -c 'setsid ./older & until [[ -e plain ]]; do sleep 0.05; done
    exec dlock run --stragglers kill --kill-after 100ms job -- ./await-orphan'

  assert_status 0
  is_alive plain
}

@test "--stragglers wait does not wait for processes that are older than the command" {
  run_to_end timeout 5 bash -c './straggler plain & until [[ -e plain ]]; do sleep 0.05; done
    exec dlock run --stragglers wait job -- true'

  assert_status 0
}

@test "--timeout spares processes that are older than the command" {
  run_to_end bash -c './straggler plain & until [[ -e plain ]]; do sleep 0.05; done
    exec dlock run --timeout 100ms --kill-after 100ms job -- sleep 60'

  is_alive plain
}
