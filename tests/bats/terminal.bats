#!/usr/bin/env bats
# On a terminal: keys, job control and reading work as without dlock, and a wait shows
# who holds the lock.
# shellcheck disable=SC2016  # the commands' own variables
# shellcheck disable=SC2154  # hold and queue set holder and waiter

setup() {
  load support
  load ../faults/locks
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  make_noter
  mkfifo keys
}

teardown() { kill_leftovers; }

refute() { ! "$@"; }

# Creates `note`, a command that appends its name and each signal that it gets to the file
# `noted`. It exits with 7 once the file `finish` exists, and not before.
make_noter() {
  cat > note << 'END'
#!/usr/bin/perl
use strict;
my $name = shift;
open my $noted, '>>', 'noted' or die $!;
sub note { syswrite $noted, "$name $_[0]\n" }
$SIG{$_} = \&note for qw(HUP INT QUIT TERM USR1 USR2 ALRM CONT WINCH);
note('ready');
until (-e 'finish') { select undef, undef, undef, 0.02 }
exit 7;
END
  chmod +x note
}

noted() { grep -qsx "$1" noted; }  # <name> <signal>

# Starts a shell command in the background on its own terminal, with the shell as the
# session leader. Sets $terminal to the pid of the process that owns the terminal, which exits
# as the command does. The output on the terminal is written to the file `screen`.
on_terminal() {  # <command for a shell>
  : > screen # now: earlier output must not be taken for that of this command
  SHELL=/bin/sh TERM=dumb env --default-signal script -qec "$1" /dev/null <> keys > screen 3>&- &
  terminal=$!
}

# Starts an interactive shell with job control.
shell_on_terminal() {
  on_terminal 'PS1="ready> " exec bash --norc --noprofile -i'
  eventually appears 'ready> '
}

press() { printf %s "$1" 1<> keys; }  # <keys>

appears() { grep -qF -- "$1" screen; }

# Prints the pid of the dlock that holds a lock.
dlock_of() { look "$1" '.holders[0].pid'; }

# Presses a key that sends a signal while dlock is stopped, and continues dlock when the
# command has noted the signal. If dlock forwarded it as well, it would be noted twice. Not for a
# dlock that is the child of script(1), which stops with its child.
press_while_dlock_is_stopped() {  # <key> <what is noted>
  local dlock
  dlock=$(dlock_of job)
  kill -STOP "$dlock"
  eventually is_stopped "$dlock"
  press_before_dlock_continues "$dlock" "$@"
}

# The same for a dlock that is stopped, or is being stopped.
press_before_dlock_continues() {  # <its pid> <key> <what is noted>
  press "$2"
  eventually noted "$3"
  kill -CONT "$1"
  # dlock takes this signal last, so it has taken the other one by then.
  kill -WINCH "$1"
  eventually noted "${3% *} WINCH"
}

# Prints the pid of a dlock's command. The guardian may be between them.
command_of() {  # <pid of dlock>
  local child
  child=$(pgrep -P "$1")
  [[ $(< "/proc/$child/comm") != dlock-guardian ]] || child=$(pgrep -P "$child")
  echo "$child"
}

runs_command() { [[ -n $(command_of "$(dlock_of "$1")") ]]; }

is_stopped() { grep -q '^State:.[Tt]' "/proc/$1/status"; }

# Whether a dlock that has started its command waits for its end. On one machine, Ctrl-C
# before that reaches the command twice: dlock cannot know whether the command existed.
sleeps() { grep -q '^State:.S' "/proc/$1/status"; }

is_continued() { grep -q '^State:.[RSD]' "/proc/$1/status"; }

@test "Ctrl-C reaches the command" {
  on_terminal 'dlock run job -- ./note command; :'
  eventually noted 'command ready'

  press $'\003'

  eventually noted 'command INT'
}

@test "Ctrl-C reaches the command only once" {
  on_terminal 'dlock run job -- ./note command; :'
  eventually noted 'command ready'

  press_while_dlock_is_stopped $'\003' 'command INT'

  assert_equal "$(grep -c INT noted)" 1
}

@test "Ctrl-C reaches the command only once if dlock is the session leader" {
  on_terminal 'exec dlock run job -- ./note command'
  eventually noted 'command ready'
  eventually sleeps "$(dlock_of job)"

  press $'\003'
  eventually noted 'command INT'
  kill -WINCH "$(dlock_of job)"
  eventually noted 'command WINCH'

  assert_equal "$(grep -c INT noted)" 1
}

@test "Ctrl-\\ reaches the command only once" {
  on_terminal 'dlock run job -- ./note command; :'
  eventually noted 'command ready'

  press_while_dlock_is_stopped $'\034' 'command QUIT'

  assert_equal "$(grep -c QUIT noted)" 1
}

@test "dlock ends by SIGINT if Ctrl-C kills the command" {
  on_terminal 'exec dlock run job -- sh -c "touch started; exec sleep 60"'
  eventually test -e started

  press $'\003'

  assert_exits 130 "$terminal"
}

@test "Ctrl-C ends a script that runs dlock in a loop" {
  cat > loop << 'END'
for round in 1 2 3; do
  echo "$round" >> rounds
  dlock run job -- sh -c 'touch started; exec sleep 60'
done
echo survived >> rounds
END
  on_terminal 'bash loop'
  eventually test -e started

  press $'\003'

  eventually has_ended "$terminal"
  assert_equal "$(< rounds)" 1
}

@test "a loop continues if its command handles Ctrl-C itself" {
  cat > loop << 'END'
for round in 1 2; do
  echo "$round" >> rounds
  dlock run job -- ./note command
  rm finish
done
END
  on_terminal 'bash loop'
  eventually noted 'command ready'

  press $'\003'
  eventually noted 'command INT'
  touch finish

  eventually grep -q 2 rounds
}

@test "Ctrl-C reaches a straggler only once" {
  on_terminal 'dlock run --stragglers wait job -- sh -c "echo \$\$ > pid; ./note straggler & :"; :'
  eventually noted 'straggler ready'
  eventually has_ended "$(< pid)"

  press_while_dlock_is_stopped $'\003' 'straggler INT'

  assert_equal "$(grep -c INT noted)" 1
}

# Ways for a command to leave the process group that the terminal signals. timeout(1) does it,
# as do job-control shells.
own_group='perl -e "setpgrp; exec @ARGV"'
own_session='setsid -w'

# Asserts that what was noted comes once, even when dlock has taken all signals so far.
assert_noted_once() {  # <pid of dlock> <name> <signal>
  eventually noted "$2 $3"
  kill -USR2 "$1"
  eventually noted "$2 USR2"
  assert_equal "$(grep -cx "$2 $3" noted)" 1
}

@test "Ctrl-C and Ctrl-\\ reach a command that left the process group, once" {
  for leave in "$own_group" "$own_session"; do
    rm -f noted finish
    on_terminal "dlock run job -- $leave ./note command; :"
    eventually noted 'command ready'
    dlock=$(dlock_of job)

    press $'\003'
    assert_noted_once "$dlock" command INT
    press $'\034'
    assert_noted_once "$dlock" command QUIT

    touch finish
    eventually is_free job
  done
}

@test "Ctrl-C reaches a command that left the process group, in limit and cache as well" {
  local verb
  for verb in 'limit job 5/1s' 'cache job --ttl 1m'; do
    rm -f noted finish
    on_terminal "echo \$\$ > pid; exec dlock $verb -- $own_group ./note command"
    eventually noted 'command ready'

    press $'\003'
    assert_noted_once "$(< pid)" command INT

    touch finish
    assert_exits 7 "$terminal"
  done
}

@test "Ctrl-C reaches a command that left the process group while dlock leads the session" {
  on_terminal "exec dlock run job -- $own_group ./note command"
  eventually noted 'command ready'

  press $'\003'

  assert_noted_once "$(dlock_of job)" command INT
}

@test "Ctrl-C stops a command that left the process group, with its children" {
  # perl ignores the signal while it waits, as shells do: the child has to get it.
  on_terminal 'exec dlock run job -- perl -e "setpgrp; system @ARGV; kill q(INT), \$\$" sh -c "touch started; exec sleep 60"'
  eventually test -e started

  press $'\003'

  assert_exits 130 "$terminal"
}

@test "Ctrl-C returns the prompt at once if the command is timeout" {
  shell_on_terminal
  press $'dlock run job -- timeout 60 sh -c "touch started; exec sleep 59"; touch over\n'
  eventually test -e started

  press $'\003'

  eventually is_free job
  press $'touch prompt\n'
  eventually test -e prompt
}

@test "Ctrl-C reaches a straggler that left the process group, and others only once" {
  on_terminal "dlock run --stragglers wait job -- sh -c 'echo \$\$ > pid; ./note near & $own_group ./note far & :'; :"
  eventually noted 'near ready'
  eventually noted 'far ready'
  eventually has_ended "$(< pid)"
  dlock=$(dlock_of job)

  press $'\003'

  assert_noted_once "$dlock" far INT
  assert_noted_once "$dlock" near INT
}

@test "a new size of the terminal reaches a command that left the process group, once" {
  on_terminal "tty > tty; dlock run job -- $own_group ./note command; :"
  eventually noted 'command ready'

  stty -F "$(cat tty)" cols 63

  assert_noted_once "$(dlock_of job)" command WINCH
}

@test "the end of the terminal reaches a command that left the process group" {
  local start
  for start in exec ''; do
    for leave in "$own_group" "$own_session"; do
      rm -f noted finish
      on_terminal "$start dlock run job -- $leave ./note command; :"
      eventually noted 'command ready'

      kill -KILL "$terminal"

      eventually noted 'command HUP'
      touch finish
      eventually is_free job
    done
  done
}

@test "Ctrl-Z stops a command that left the process group, and fg continues it" {
  shell_on_terminal
  for leave in "$own_group" "$own_session"; do
    rm -f noted finish
    : > screen
    press "dlock run job -- $leave ./note command"$'\n'
    eventually noted 'command ready'
    local dlock command
    dlock=$(dlock_of job)
    command=$(command_of "$dlock")

    press $'\032'
    eventually is_stopped "$dlock"
    eventually is_stopped "$command"
    eventually appears 'Stopped'

    press $'fg\n'
    eventually is_continued "$dlock"
    eventually noted 'command CONT'
    touch finish
    press $'echo "code=$?"\n'
    eventually appears 'code=7'
  done
}

@test "Ctrl-Z does not stop a command that left the process group if no shell could continue it" {
  on_terminal "dlock run job -- $own_group ./note command; :"
  eventually noted 'command ready'
  dlock=$(dlock_of job)
  command=$(command_of "$dlock")

  press $'\032'
  kill -USR2 "$dlock"

  eventually noted 'command USR2'
  refute is_stopped "$command"
  refute is_stopped "$dlock"
}

@test "Ctrl-C stops a command that was stopped because it read the terminal in another group" {
  shell_on_terminal
  press 'dlock run job -- perl -e "setpgrp; open F, q(>), q(started); close F; <STDIN>"'$'\n'
  eventually test -e started
  eventually is_stopped "$(command_of "$(dlock_of job)")"

  press $'\003'

  eventually is_free job
}

@test "Ctrl-C and Ctrl-Z in an interactive shell under a lock are for that shell's jobs alone" {
  on_terminal 'PS1="ready> " exec dlock run job -- bash --norc --noprofile -i'
  eventually appears 'ready> '
  press $'./note first\n'
  eventually noted 'first ready'

  press $'\032'
  eventually appears 'Stopped'
  press $'./note second\n'
  eventually noted 'second ready'
  press $'\003'
  eventually noted 'second INT'

  is_held job
  assert_equal "$(grep -c INT noted)" 1
  refute is_stopped "$(dlock_of job)"
}

@test "Ctrl-C reaches the command once under two locks, one of them in another group" {
  on_terminal 'dlock run job -- dlock run inner -- ./note command; :'
  eventually noted 'command ready'
  eventually sleeps "$(dlock_of job)"
  eventually sleeps "$(dlock_of inner)"

  press $'\003'
  assert_noted_once "$(dlock_of job)" command INT
  kill -KILL "$terminal"
  touch finish
  eventually is_free job
  rm noted finish

  on_terminal "dlock run job -- dlock run inner -- $own_group ./note command; :"
  eventually noted 'command ready'

  press $'\003'
  assert_noted_once "$(dlock_of job)" command INT
}

# Starts a shell command on a terminal, with its dlock under strace, as a job: otherwise the
# end of the command would continue a stopped dlock (the kernel does so if none of the other
# processes in the group has a parent outside of it). -I: Ctrl-C does not end strace, and
# LeakSanitizer does not work under it.
trace_on_terminal() {  # <options of strace> <command with its arguments>
  : > trace
  ASAN_OPTIONS=detect_leaks=0 \
    on_terminal "exec bash -mc 'strace -I never -qq -o trace $1 $2; exit \$?'"
}

# Writes the system calls of dlock to the file `calls`, up to the one that lets the command
# start, which is $start.
find_start() {
  dlock run job -- true
  trace_on_terminal '' 'dlock run job -- true'
  assert_exits 0 "$terminal"
  calls_before_start > calls
  start=$(tail -n 1 calls)
}

calls_before_start() { sed -n '/^vfork\|FUTEX_WAKE, / { s/(.*//p; q }; s/(.*//p' trace; }

# Runs a command on a terminal, with its dlock stopped at a system call. Sets $dlock to its
# pid. Fails if dlock makes fewer of these calls.
stop_dlock_at() {  # <system call> <which one> <command>
  trace_on_terminal "-e inject=$1:signal=STOP:when=$2" "dlock run job -- $3"
  eventually stops_or_ends
  dlock=$(pgrep -x dlock -P "$(pgrep -x strace -P "$(pgrep -x bash -P "$terminal")")")
}

stops_or_ends() { grep -q 'stopped by SIGSTOP' trace || has_ended "$terminal"; }

has_pending_int() { grep -q '^ShdPnd:.*[2367abef]$' "/proc/$1/status"; }

@test "Ctrl-C right before the command starts is not lost" {
  find_start
  local call count try dlock

  for call in $(tail -n 2 calls); do
    for try in {1..10}; do
      count=$(grep -cx "$call" calls)
      if stop_dlock_at "$call" "$count" 'sleep 60'; then break; fi
      # On a busy machine, the number of waits for the server varies.
      calls_before_start > calls
      ((try < 10))
    done
    press $'\003'
    eventually has_pending_int "$dlock"
    kill -CONT "$dlock"
    assert_exits 130 "$terminal"
  done
}

@test "on a server, Ctrl-C right after the start reaches the command only once" {
  [[ ${DLOCK_TEST_STORE:-local} == redis ]] || use_server_as_store
  find_start
  local dlock
  stop_dlock_at "$start" "$(grep -cx "$start" calls)" './note command'
  eventually noted 'command ready'

  press_before_dlock_continues "$dlock" $'\003' 'command INT'

  assert_equal "$(grep -c INT noted)" 1
}

@test "on a server, Ctrl-C reaches the command only once if the guardian is slow" {
  [[ ${DLOCK_TEST_STORE:-local} == redis ]] || use_server_as_store
  dlock run job -- true
  # It, and the process that becomes the command, are late in their groups.
  trace_on_terminal '-f -e inject=setpgid:delay_enter=300000' 'dlock run job -- ./note command'
  eventually grep -q 'FUTEX_WAKE, ' trace
  local dlock
  dlock=$(awk '/FUTEX_WAKE, / { print $1; exit }' trace)
  kill -STOP "$dlock"
  eventually noted 'command ready'

  press_before_dlock_continues "$dlock" $'\003' 'command INT'

  assert_equal "$(grep -c INT noted)" 1
}

@test "a signal that is sent only to dlock reaches the command" {
  on_terminal 'dlock run job -- ./note command; :'
  eventually noted 'command ready'

  for signal in INT TERM HUP USR1 QUIT CONT WINCH; do
    kill -s "$signal" "$(dlock_of job)"
    eventually noted "command $signal"
  done
}

@test "an alarm that was set before dlock started reaches the command" {
  on_terminal 'exec perl -e "alarm 1; exec @ARGV" dlock run job -- ./note command'
  eventually noted 'command ready'

  EVENTUALLY_MS=3000 eventually noted 'command ALRM'
}

@test "the end of the terminal reaches the command if dlock is the session leader" {
  on_terminal 'exec dlock run job -- ./note command'
  eventually noted 'command ready'

  kill -KILL "$terminal"

  eventually noted 'command HUP'
}

@test "the end of the terminal reaches the command if a shell is the session leader" {
  shell_on_terminal
  press $'dlock run job -- ./note command\n'
  eventually noted 'command ready'

  kill -KILL "$terminal"

  eventually noted 'command HUP'
}

@test "Ctrl-Z stops the command and dlock" {
  shell_on_terminal
  press $'dlock run job -- ./note command\n'
  eventually noted 'command ready'
  local dlock command
  dlock=$(dlock_of job)
  command=$(command_of "$dlock")

  press $'\032'

  eventually is_stopped "$dlock"
  eventually is_stopped "$command"
  eventually appears 'Stopped'
}

@test "fg continues a run that Ctrl-Z stopped, and the exit code is the command's" {
  shell_on_terminal
  press $'dlock run job -- ./note command\n'
  eventually noted 'command ready'
  command=$(pgrep -P "$(dlock_of job)")
  press $'\032'
  eventually appears 'Stopped'

  press $'fg\n'
  eventually is_continued "$command"
  touch finish
  eventually has_ended "$command"
  press $'echo "code=$?"\n'

  eventually appears 'code=7'
}

@test "a stopped run keeps its lock" {
  shell_on_terminal
  press $'dlock run job -- ./note command\n'
  eventually noted 'command ready'
  press $'\032'
  eventually appears 'Stopped'

  run dlock run job -- true

  assert_status 75
}

@test "Ctrl-Z and fg work during a wait as well" {
  hold job
  shell_on_terminal
  press $'dlock run -w forever job -- touch ran\n'
  eventually appears 'position 1'
  press $'\032'
  eventually appears 'Stopped'

  press $'fg\n'
  let_go

  eventually test -e ran
}

@test "after Ctrl-Z in a wait, a SIGCONT to dlock alone is enough for the command to run" {
  hold job
  shell_on_terminal
  press $'dlock run -w forever job -- ./note command\n'
  eventually somebody_waits job
  local dlock
  dlock=$(pgrep -x dlock -P "$(pgrep -P "$terminal")")
  press $'\032'
  eventually is_stopped "$dlock"

  kill -CONT "$dlock"
  eventually is_continued "$dlock"
  let_go

  eventually noted 'command ready'
}

@test "Ctrl-C during a wait ends dlock at once" {
  hold job
  on_terminal 'exec dlock run -w forever job -- touch ran'
  eventually appears 'position 1'
  begin=$(now_ms)

  press $'\003'

  assert_exits 130 "$terminal"
  assert_between $(($(now_ms) - begin)) 0 1500
}

@test "with a terminal, the command stays in the caller's process group" {
  on_terminal 'ps -o pgid= -p $$ > caller; dlock run job -- sh -c "ps -o pgid= -p \$\$ > inside; :"; :'

  assert_exits 0 "$terminal"
  assert_equal "$(< inside)" "$(< caller)"
}

@test "without a terminal, the command leads its own process group" {
  run setsid --wait dlock run job -- sh -c 'ps -o pid=,pgid= -p $$; :'

  read -r pid group <<< "$output"
  assert_equal "$group" "$pid"
}

@test "the command stays in the caller's session" {
  ps -o sid= -p $$ > caller

  dlock run job -- sh -c 'ps -o sid= -p $$; :' > inside

  cmp caller inside
}

@test "the command can read the terminal" {
  on_terminal 'dlock run job -- sh -c "touch started; read -r line; echo \"\$line\" > heard"'
  eventually test -e started

  press $'hello\n'

  assert_exits 0 "$terminal"
  assert_equal "$(< heard)" hello
}

@test "the command can read the terminal at the start of a pipeline" {
  shell_on_terminal

  press $'dlock run job -- sh -c "touch started; read -r line; echo \\$line" | tee heard\n'
  eventually test -e started
  press $'hello\n'

  eventually grep -qx hello heard
}

@test "the command can read the terminal at the end of a pipeline" {
  shell_on_terminal

  press $'echo piped | dlock run job -- sh -c "cat > heard; touch started; read -r line < /dev/tty; echo \\$line >> heard"\n'
  eventually test -e started
  press $'hello\n'

  eventually grep -qx hello heard
  assert_equal "$(< heard)" $'piped\nhello'
}

@test "the command can change the terminal's settings" {
  on_terminal 'dlock run job -- stty -echo && stty -a > settings'

  assert_exits 0 "$terminal"
  grep -q -e '-echo ' settings
}

@test "the command's standard input, output and error are the terminal" {
  on_terminal 'dlock run job -- sh -c "test -t 0 && test -t 1 && test -t 2"'

  assert_exits 0 "$terminal"
}

@test "a background run that reads the terminal stops until it is in the foreground" {
  shell_on_terminal
  press $'dlock run job -- sh -c "touch started; read -r line; echo \\$line > heard" &\n'
  eventually test -e started
  eventually runs_command job
  eventually is_stopped "$(dlock_of job)"

  press $'fg\n'
  eventually is_continued "$(dlock_of job)"
  press $'hello\n'

  eventually grep -qx hello heard
}

@test "a background run that does not read the terminal is not stopped" {
  shell_on_terminal

  press $'dlock run job -- touch ran & wait; touch over\n'

  eventually test -e over
  test -e ran
}

@test "the line of a wait shows who holds the lock and for how long" {
  hold job

  on_terminal 'stty cols 200; dlock run -w forever job -- echo ran'

  eventually appears "dlock: job: waiting: held by $(id -un)@$(uname -n) (pid $holder, sh -c "
  eventually grep -qE ' for [0-9.]+m?s; position 1 of 1' screen
}

@test "the line of a wait shows the position in the queue" {
  hold job
  queue job true
  queue job true

  on_terminal 'dlock run -w forever job -- echo ran'

  eventually appears 'position 3 of 3'
}

@test "the line of a wait is updated when the position changes" {
  hold job
  queue job true
  on_terminal 'dlock run -w forever job -- echo ran'
  eventually appears 'position 2 of 2'

  kill -TERM "$waiter"

  eventually appears 'position 1 of 1'
}

@test "the line of a wait is updated when the holder changes, however long the queue is" {
  hold job
  queue job sleep 60
  local next=$waiter
  queue job true
  queue job true
  on_terminal 'dlock run -w forever job -- echo ran'
  eventually appears 'position 4 of 4'

  let_go

  eventually grep -qE "held by [^ ]* \(pid ${next}[,)].* for [0-9.]+m?s; position 3 of 3" screen
  eventually grep -qE "held by [^ ]* \(pid ${next}[,)].* for [4-9](\.[0-9]+)?s; position 3 of 3" screen
}

@test "the line of a wait is erased when the command starts" {
  hold job
  on_terminal 'TERM=xterm dlock run -w forever job -- echo ran'
  eventually appears 'position 1'

  let_go

  assert_exits 0 "$terminal"
  assert_equal "$(tr -d '\n' < screen | sed 's/.*\r\x1b\[K//')" $'ran\r'
}

@test "the line of a wait stays one line" {
  hold job
  on_terminal 'dlock run -w forever job -- true'
  eventually appears 'position 1'

  let_go

  assert_exits 0 "$terminal"
  assert_equal "$(wc -l < screen)" 0
}

@test "the line of a wait is erased when the wait ends without the lock" {
  hold job

  on_terminal 'TERM=xterm dlock run -w 300ms job -- true'

  assert_exits 75 "$terminal"
  assert_equal "$(wc -l < screen)" 1
  [[ $(tr -d '\n' < screen) =~ $'\r\e[K''dlock: job: held by '[^$'\e']*$ ]]
}

# Print all lines that were shown, one after the other, and the width of the widest one.
live_lines() { perl -0777 -ne 's/\e\[K//g; print "$_\n" for grep { length } split /[\r\n]+/' screen; }
widest() { live_lines | LC_ALL=C.UTF-8 awk '{ if (length($0) > most) most = length($0) } END { print most + 0 }'; }

@test "on a narrow terminal, the line of a wait shortens the holder and keeps the position" {
  hold job

  on_terminal 'stty cols 44; TERM=xterm dlock run -w forever job -- true'

  eventually appears 'position 1 of 1'
  live_lines | grep -qE 'job: held (by [^ ]+ )?for [0-9.]+m?s; position 1 of 1$'
}

@test "the line of a wait is always narrower than the terminal" {
  name=$(printf 'n%.0s' {1..200})
  hold "$name"

  for columns in 100 40 20 3; do
    on_terminal "stty cols $columns; TERM=xterm dlock run -w 400ms $name -- true 2>&1 | cat > refused; :"
    eventually has_ended "$terminal"
    on_terminal "stty cols $columns; TERM=xterm exec dlock run -w forever $name -- true"
    eventually test -s screen
    assert_between "$(widest)" 1 "$((columns - 1))"
    kill -TERM "$(pgrep -P "$terminal")"
    assert_exits 143 "$terminal"
  done
}

@test "the line of a wait adapts to the width of the terminal" {
  hold job
  queue job true
  on_terminal 'tty > tty; stty cols 100; TERM=xterm dlock run -w forever job -- true'
  eventually appears 'position 2 of 2'
  stty -F "$(cat tty)" cols 34

  kill -TERM "$waiter"

  eventually appears 'position 1 of 1'
  local last
  last=$(live_lines | tail -n 1)
  assert_between "${#last}" 1 33
}

@test "on a dumb terminal, the line of a wait is overwritten with spaces" {
  hold job
  on_terminal 'dlock run -w forever job -- echo ran'
  eventually appears 'position 1'

  let_go

  assert_exits 0 "$terminal"
  refute grep -qF $'\e' screen
  [[ $(tr '\r' '|' < screen) =~ \|dlock:\ job:\ [^|]+\|\ +\|ran\|$ ]]
}

@test "-q shows no line during a wait" {
  hold job
  on_terminal 'dlock run -q -w forever job -- echo ran'
  eventually somebody_waits job

  let_go

  assert_exits 0 "$terminal"
  assert_equal "$(< screen)" $'ran\r'
}

@test "no line is shown if the lock is free" {
  on_terminal 'dlock run -w forever job -- echo ran'

  assert_exits 0 "$terminal"
  assert_equal "$(< screen)" $'ran\r'
}

@test "control characters in the holder's command are escaped" {
  dlock run job -- sh -c 'touch started; exec sleep 60' $'\e]0;title\a' 3>&- &
  eventually test -e started

  on_terminal 'dlock run -w 200ms job -- true'

  assert_exits 75 "$terminal"
  refute grep -qF $'\e]' screen
}

@test "tables with long names and labels fit into a narrow terminal" {
  hold "$(printf '日%.0s' {1..60})" --label "$(printf 'l%.0s' {1..200})" -n 2
  dlock run "$(printf 'n%.0s' {1..200})" -- true
  local verb

  for verb in list "status $(printf '日%.0s' {1..60})" "history $(printf 'n%.0s' {1..200})"; do
    on_terminal "stty cols 40; TERM=xterm NO_COLOR=1 dlock $verb"
    assert_exits 0 "$terminal"
    # In its status, the name of the lock has its own line.
    grep -v '^日*  held' screen | sed 's/日/ww/g' > table
    assert_between "$(LC_ALL=C.UTF-8 awk '{ sub(/\r/, "") } length($0) > m { m = length($0) } END { print m }' table)" 20 40
  done
}

# Stops the output of the terminal, as Ctrl-S does. Its command has written its name to the
# file `tty`.
stop_output() { perl -MPOSIX -e 'tcflow(0, TCOOFF) or die $!' < "$(cat tty)"; }

@test "a command that is stopped by dlock releases the lock though the terminal is stopped" {
  on_terminal 'tty > tty; exec dlock run job -- sh -c "touch started; exec sleep 60"'
  eventually test -e started
  stop_output

  dlock break --yes job 3>&- &

  eventually is_free job
  assert_exits 76 "$terminal"
}

@test "a signal ends a waiter though the terminal is stopped" {
  hold job
  on_terminal 'tty > tty; exec dlock run -w forever job -- true'
  eventually appears 'position 1 of 1'
  stop_output

  kill -TERM "$(pgrep -P "$terminal")"

  assert_exits 143 "$terminal"
}
