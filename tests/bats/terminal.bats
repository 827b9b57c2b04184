#!/usr/bin/env bats
# On a terminal: keys, job control and reading work as without dlock. wait_notice.bats has what a
# wait shows there.

setup() {
  load support
  load noter
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  make_noter
  mkfifo keys
}

# Asserts that this was noted once, and forgets all that was noted.
assert_once() {  # "<name> <signal>"
  assert_equal "$(grep -cx "$1" noted)" 1
  : > noted
}

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
dlock_of() {
  [[ $(dlock status --json "$1") =~ '"holders":[{'[^{]*'"pid":'([0-9]+) ]]
  echo "${BASH_REMATCH[1]}"
}

# Presses a key that sends a signal while dlock is stopped, and continues dlock when the
# command has noted the signal. If dlock forwarded it as well, it would be noted twice. Not for a
# dlock that is the child of script(1), which stops with its child.
press_while_dlock_is_stopped() {  # <key> <what is noted>
  local dlock
  dlock=$(dlock_of job)
  eventually sleeps "$dlock"
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
  [[ $(< "/proc/$child/comm") != lock-guardian ]] || child=$(pgrep -P "$child")
  echo "$child"
}

runs_command() { [[ -n $(command_of "$(dlock_of "$1")") ]]; }

is_stopped() { grep -q '^State:.[Tt]' "/proc/$1/status"; }

# Whether a dlock that has started its command waits for its end. On one machine, Ctrl-C
# before that reaches the command twice: dlock cannot know whether the command existed.
sleeps() { grep -q '^State:.S' "/proc/$1/status"; }

is_continued() { grep -q '^State:.[RSD]' "/proc/$1/status"; }

@test "Ctrl-C, Ctrl-\\ and signals to dlock alone reach the command once" {
  on_terminal 'trap : QUIT; dlock run job -- ./note command; :'
  eventually noted 'command ready'
  press_while_dlock_is_stopped $'\003' 'command INT'
  assert_once 'command INT'
  press_while_dlock_is_stopped $'\034' 'command QUIT'
  assert_once 'command QUIT'
  dlock=$(dlock_of job)
  for signal in INT TERM HUP USR1 QUIT CONT WINCH; do
    kill -s "$signal" "$dlock"
    eventually noted "command $signal"
    assert_once "command $signal"
  done
}

@test "Ctrl-C reaches the command once if dlock is the session leader, and so does the end of the terminal" {
  on_terminal 'exec dlock run job -- ./note command'
  eventually noted 'command ready'
  dlock=$(dlock_of job)
  eventually sleeps "$dlock"

  press $'\003'
  eventually noted 'command INT'
  kill -WINCH "$dlock"
  eventually noted 'command WINCH'
  assert_once 'command INT'

  kill -KILL "$terminal"
  eventually noted 'command HUP'
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

@test "dlock ends by SIGINT if Ctrl-C kills the command, in dlock's process group or not, with its children" {
  # perl ignores the signal while it waits, as shells do: the child has to get it.
  for command in '' 'perl -e "setpgrp; system @ARGV; kill q(INT), \$\$"'; do
    rm -f started
    on_terminal "exec dlock run job -- $command sh -c 'touch started; exec sleep 60'"
    eventually test -e started

    press $'\003'

    assert_exits 130 "$terminal"
  done
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

@test "Ctrl-C, Ctrl-\\, a new size and the end of the terminal reach a command that left the process group, once" {
  local start leave
  for start in '' exec; do
    for leave in "$own_group" "$own_session"; do
      rm -f noted finish
      on_terminal "tty > tty; trap : QUIT; $start dlock run job -- $leave ./note command; :"
      eventually noted 'command ready'
      dlock=$(dlock_of job)

      press $'\003'
      assert_noted_once "$dlock" command INT
      : > noted
      press $'\034'
      assert_noted_once "$dlock" command QUIT
      : > noted
      stty -F "$(< "tty")" cols 63
      assert_noted_once "$dlock" command WINCH

      kill -KILL "$terminal"
      eventually noted 'command HUP'
      touch finish
      eventually is_free job
    done
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

@test "Ctrl-Z stops the command, in whatever process group, and dlock with the lock, and fg continues them" {
  shell_on_terminal
  for leave in '' "$own_group" "$own_session"; do
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
    run dlock run job -- true
    assert_status 75

    press $'fg\n'
    eventually is_continued "$dlock"
    eventually noted 'command CONT'
    touch finish
    press $'echo "code=$?"\n'
    eventually appears 'code=7'
  done
}

@test "the end of the terminal reaches the command if a shell is the session leader" {
  shell_on_terminal
  press $'dlock run job -- ./note command\n'
  eventually noted 'command ready'

  kill -KILL "$terminal"

  eventually noted 'command HUP'
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
  [[ ${DLOCK_TEST_STORE:-local} == local ]] || skip 'terminal.bats has it'
  use_server_as_store
  find_start
  local dlock
  stop_dlock_at "$start" "$(grep -cx "$start" calls)" './note command'
  eventually noted 'command ready'

  press_before_dlock_continues "$dlock" $'\003' 'command INT'

  assert_equal "$(grep -c INT noted)" 1
}

@test "on a server, Ctrl-C reaches the command only once if the guardian is slow" {
  [[ ${DLOCK_TEST_STORE:-local} == local ]] || skip 'terminal.bats has it'
  use_server_as_store
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

@test "an alarm that was set before dlock started reaches the command" {
  on_terminal 'exec perl -e "alarm 1; exec @ARGV" dlock run job -- ./note command'
  eventually noted 'command ready'

  eventually noted 'command ALRM'
}

@test "during a wait, Ctrl-Z and fg work, and Ctrl-C ends dlock at once" {
  hold job
  shell_on_terminal
  press $'dlock run -w forever job -- touch ran\n'
  eventually appears 'position 1'
  press $'\032'
  eventually appears 'Stopped'
  press $'fg\n'
  let_go
  eventually test -e ran
  eventually is_free job

  hold job
  : > screen
  press $'dlock run -w forever job -- touch ran\n'
  eventually appears 'position 1'
  press $'\003'
  press $'echo "code=$?"\n'
  eventually appears 'code=130'
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

@test "the command stays in the caller's session, and in its process group if there is a terminal" {
  on_terminal 'ps -o pgid=,sid= -p $$ > caller; dlock run job -- sh -c "ps -o pgid=,sid= -p \$\$ > inside; :"; :'
  assert_exits 0 "$terminal"
  assert_equal "$(< inside)" "$(< caller)"

  setsid --wait sh -c 'ps -o sid= -p $$ > caller; dlock run job -- sh -c "ps -o pid=,pgid=,sid= -p \$\$; :"' > inside
  read -r pid group session < inside
  read -r session_of_caller < caller
  assert_equal "$group $session" "$pid $session_of_caller"
}

@test "the command reads the terminal, in a pipeline too, writes to it, and can change its settings" {
  shell_on_terminal
  press $'dlock run job -- sh -c "test -t 0 && test -t 1 && test -t 2 && touch started; read -r line; echo \\$line > heard"\n'
  eventually test -e started
  press $'hello\n'
  eventually grep -qx hello heard

  rm started
  press $'dlock run job -- sh -c "touch started; read -r line; echo \\$line" | tee first\n'
  eventually test -e started
  press $'hello\n'
  eventually grep -qx hello first

  rm started
  press $'echo piped | dlock run job -- sh -c "cat > last; touch started; read -r line < /dev/tty; echo \\$line >> last"\n'
  eventually test -e started
  press $'hello\n'
  eventually grep -qx hello last
  assert_equal "$(< last)" $'piped\nhello'

  on_terminal 'dlock run job -- stty -echo && stty -a > settings'
  assert_exits 0 "$terminal"
  grep -q -e '-echo ' settings
}

@test "a background run stops if it reads the terminal, until it is in the foreground, and otherwise does not" {
  shell_on_terminal
  press $'dlock run job -- touch ran & wait; touch over\n'
  eventually test -e over
  test -e ran

  press $'dlock run job -- sh -c "touch started; read -r line; echo \\$line > heard" &\n'
  eventually test -e started
  eventually runs_command job
  dlock=$(dlock_of job)
  eventually is_stopped "$dlock"
  press $'fg\n'
  eventually is_continued "$dlock"
  press $'hello\n'
  eventually grep -qx hello heard
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
