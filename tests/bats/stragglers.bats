#!/usr/bin/env bats
# --stragglers: what happens to processes that outlive their command, and to its lock.

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  make_commands
  # What reads it waits without a process.
  export silence
}

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
until [[ -e finish ]]; do read -rt 0.05 <> "$silence"; done
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
for kind; do until [[ -e $kind ]]; do read -rt 0.02 <> "$silence"; done; done
exit 5
END
  chmod +x straggler starts
}

# Runs a command to its end, for at most 20 s, and sets $status to its exit code.
run_to_end() {  # <command>...
  status=0
  timeout -s KILL 60 "$@" 3>&- || status=$?
}

is_alive() { refute has_ended "$(< "$1")"; }  # <kind of straggler, or command>

is_dead() { has_ended "$(< "$1")"; }  # <kind of straggler, or command>

@test "by default, a straggler keeps running, the exit code is the command's, and the lock is free" {
  for option in '' '--stragglers leave'; do
    rm -f plain daemon
    # shellcheck disable=SC2086
    run_to_end dlock run $option job -- ./starts plain daemon

    assert_status 5
    is_alive plain
    is_alive daemon
    is_free job
  done
}

@test "--stragglers wait holds the lock until the last straggler has ended, and forwards signals to it" {
  dlock run --stragglers wait job -- ./starts daemon 3>&- &
  eventually test -e daemon
  eventually is_dead command
  never_within 300 has_ended $!
  is_held job
  touch finish
  assert_exits 5 $!
  is_free job

  rm finish command
  env --default-signal setsid dlock run --stragglers wait job -- ./starts plain 3>&- &
  dlock=$!
  eventually test -e plain
  eventually is_dead command
  kill -TERM "$dlock"
  assert_exits 5 "$dlock"
  assert_equal "$(< termed)" plain

  # It does not wait if there are none.
  run_to_end dlock run --stragglers wait job -- sh -c 'exit 5'
  assert_status 5
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

@test "--stragglers kill ends stragglers, daemons and stopped ones with SIGTERM, prints nothing and keeps the exit code" {
  # It does not wait for --kill-after.
  run_to_end dlock run --stragglers kill --kill-after 10m job -- ./starts plain daemon stopped daemon-stopped > said 2>&1

  assert_status 5
  for kind in plain daemon stopped daemon-stopped; do is_dead "$kind"; done
  [[ -s termed ]]
  assert_equal "$(< said)" ''
  is_free job
}

@test "--stragglers kill waits for --kill-after if stragglers ignore SIGTERM, and kills those that are started meanwhile" {
  begin=$(now_ms)
  run_to_end dlock run --stragglers kill --kill-after 500ms job -- ./starts daemon-stubborn daemon-heir

  (($(now_ms) - begin >= 500))
  is_dead daemon-stubborn
  is_dead stubborn
  no_leftovers
}

@test "--stragglers kill holds the lock until all stragglers have ended" {
  dlock run --stragglers kill --kill-after 60s job -- ./starts stubborn 3>&- &
  dlock=$!
  eventually test -e stubborn

  never_within 300 has_ended "$dlock"
  is_held job
  kill -KILL "$(< stubborn)"

  assert_exits 5 "$dlock"
}

@test "--stragglers kill does not hide that a signal killed the command" {
  run_to_end dlock run --stragglers kill job -- sh -c './starts plain; kill -USR1 $$'

  assert_status 138
}

@test "processes that are older than the command are neither killed nor waited for" {
  for options in '--stragglers kill --kill-after 100ms' '--stragglers wait' '--timeout 100ms --kill-after 100ms'; do
    rm -f plain
    run_to_end bash -c './straggler plain & until [[ -e plain ]]; do read -rt 0.02 <> "$silence"; done
      exec dlock run $0 job -- sh -c "case \"\$0\" in *timeout*) exec sleep 60; esac" "$0"' "$options"

    echo "with $options"
    [[ $status == 0 || $options == --timeout* ]]
    is_alive plain
    end_processes "$(< plain)"
  done
}

@test "ending an orphan of a process that is older than the command spares the rest of its session" {
  export DLOCK_STORE=local:$BATS_TEST_TMPDIR/embedded # on a server, the orphan is spared as well
  cat > older << 'END'
#!/bin/bash
(until [[ -e begun ]]; do read -rt 0.02 <> "$silence"; done; ./starts stubborn; :) &
exec ./straggler plain
END
  cat > await-orphan << 'END'
#!/bin/bash
touch begun
until [[ -e stubborn && $(< "/proc/$(< stubborn)/status") == *$'\nPPid:\t'$PPID$'\n'* ]]; do
  read -rt 0.01 <> "$silence"
done
exit 0
END
  chmod +x older await-orphan

  run_to_end bash -c 'setsid ./older & until [[ -e plain ]]; do read -rt 0.02 <> "$silence"; done
    exec dlock run --stragglers kill --kill-after 100ms job -- ./await-orphan'

  assert_status 0
  is_alive plain
}

# The ordinary user cannot see the parents of dlock, so no look at /proc counts as complete, and one takes 0.8 s.
@test "--stragglers kill ends when nothing is left, and not at --kill-after, however long a look at /proc takes" {
  use_private_mounts
  inside mount -t proc -o hidepid=2 proc /proc
  inside install -m 755 "$(realpath "$DLOCK_BIN")" /mnt/dlock
  inside install -d -m 700 -o 65534 /mnt/store

  inside strace -u "$(id -nu 65534)" -f -o "$BATS_TEST_TMPDIR/trace" -e trace=getdents64 -e inject=getdents64:delay_enter=400000 \
    /mnt/dlock --store local:/mnt/store/l run --stragglers kill --kill-after 20s job -- sh -c 'sleep 60 & exit 3' > /dev/null 3>&- || status=$?

  assert_equal "$status" 3
  # There were some thirty.
  (($(grep -c getdents64 "$BATS_TEST_TMPDIR/trace") <= 12))
}
