#!/usr/bin/env bats
# Signals: which processes get them, what the command inherits, and that no signal loses the
# lock or leaves a command behind. Ctrl-C and Ctrl-Z are in terminal.bats.

setup() {
  load support
  load noter
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  make_noter
}

# Starts a command in the background as a login shell would: with no signal ignored. (Scripts
# ignore INT and QUIT in background jobs.) Sets $launched to its pid. How it ended, as wait(2)
# reports it, is written to the file `ended`.
launch() {  # <command>...
  rm -f ended launched
  env --default-signal perl -e '
    my $pid = fork // die "fork: $!";
    if (!$pid) { exec { $ARGV[0] } @ARGV or exit 255 }
    sub put { open my $file, ">", "$_[0].new"; print $file $_[1]; close $file; rename "$_[0].new", $_[0] }
    put("launched", $pid);
    waitpid($pid, 0);
    my ($signal, $core) = ($? & 127, $? & 128);
    put("ended", $signal ? "signal $signal" . ($core ? " core" : "") : "exit " . ($? >> 8))' "$@" 3>&- &
  eventually test -e launched || return
  launched=$(< launched)
}

# Asserts how the launched command ends: "exit 7", "signal 15".
assert_ended() {  # <how>
  eventually test -e ended || return
  assert_equal "$(< ended)" "$1"
}

# Launches a run of `note` without a terminal, as cron does.
launch_noter() {  # [<option>...]
  rm -f noted
  launch setsid dlock run "$@" job -- ./note command
  eventually noted 'command ready'
}

# Launches a waiter for the lock. Its messages go to the file `said`.
launch_waiter() {  # [<command that starts it>...]
  launch "$@" sh -c 'exec dlock run -w forever job -- touch ran 2>> said'
  eventually is_queued job "$launched"
}

# Asserts that the launched dlock, which waits for much longer, is killed by a signal.
assert_killed_by() {  # <signal>
  kill -s "$1" "$launched"
  assert_ended "signal $(kill -l "$1")"
}

asks_the_store() {  # <pid>
  if [[ ${DLOCK_TEST_STORE:-} == redis ]]; then
    has_descriptor socket "$1" 2
  else
    has_descriptor /sessions "$1"
  fi
}

# True if a process has at least this many descriptors of a kind, by default one.
has_descriptor() {  # <part of what they refer to> <pid> [<number>]
  (($(readlink "/proc/$2/fd/"* | grep -c "$1") >= ${3:-1}))
}

no_sockets() { ! compgen -G 'store/wake-*' > /dev/null; }

# Takes the mutexes that every change of a lock needs and does not release them. On a server,
# stops the server instead.
keep_store_busy() {
  if [[ ${DLOCK_TEST_STORE:-} == redis ]]; then
    kill -STOP "$server_pid"
    return
  fi
  perl -MFcntl -e '
    # The mutexes of all locks: sessions.hpp.
    my $gates = pack "s s x4 q q l x4", F_WRLCK, 0, 1 << 62, 0, 0;
    open my $sessions, "+<", shift or die;
    fcntl $sessions, F_SETLK, $gates or die;
    open my $taken, ">", "taken";
    sleep 60' store/sessions 3>&- &
  eventually test -e taken
}

# The signal mask and the dispositions of the process that this runs in.
signal_state=(grep -E '^(SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt):' /proc/self/status)

# Asserts that a command that env(1) starts with these options has the same signal state with
# dlock as without it.
assert_same_signal_state() {  # <option of env>...
  timeout -s KILL 60 env "$@" "${signal_state[@]}" > without
  timeout -s KILL 60 env "$@" dlock run job -- "${signal_state[@]}" > with
  diff with without >&2
}

@test "a signal kills a waiter at once and silently, and nothing is left of it" {
  hold job
  launch_waiter env --block-signal=TERM
  assert_killed_by TERM
  for signal in HUP INT QUIT ALRM TERM USR1 PIPE RTMIN RTMIN+3; do
    launch_waiter
    assert_killed_by "$signal"
  done

  nobody_waits job
  no_sockets
  let_go
  assert_exits 0 "$holder"
  refute test -e ran
  assert_equal "$(but_for_wait said)" ''
}

@test "a signal kills dlock at once during --jitter and --splay" {
  launch sh -c 'exec dlock run -v --splay 1h --jitter 1h job -- touch ran 2> said'
  eventually grep -q jitter said

  assert_killed_by TERM
}

@test "a signal kills dlock at once while the store is busy" {
  dlock run job -- true
  keep_store_busy
  launch dlock run -w forever job -- touch ran
  eventually asks_the_store "$launched"

  assert_killed_by TERM
}

@test "signals that end no process by default, or were ignored when dlock started, do not end a waiter" {
  hold job
  launch_waiter env --ignore-signal=HUP,INT,TERM

  for signal in WINCH CONT URG CHLD HUP INT TERM; do kill -s "$signal" "$launched"; done
  let_go

  assert_ended 'exit 0'
}

@test "without a terminal, every signal to dlock reaches the command and its children, and dlock and the lock stay" {
  for store in "$DLOCK_STORE" none:; do
    rm -f noted finish
    launch setsid dlock --store "$store" run job -- sh -c './note child & exec ./note command'
    eventually noted 'command ready' 'child ready'

    for signal in HUP INT QUIT USR1 USR2 ALRM TERM WINCH CONT PIPE RTMIN+3 ILL TRAP ABRT BUS FPE SEGV SYS XCPU XFSZ; do
      kill -s "$signal" "$launched"
      perl_name=${signal/RTMIN+3/NUM37}
      eventually noted "command $perl_name" "child $perl_name"
    done
    # A second time, and then all others.
    : > noted
    for signal in TERM INT; do
      kill -s "$signal" "$launched"
      eventually noted "command $signal"
    done
    for signal in {1..31} {34..64}; do
      [[ $signal == @(9|17|19|2[0-3]) ]] || kill "-$signal" "$launched" # KILL, CHLD, and those that stop or do nothing
    done
    eventually noted 'command RTMAX'

    [[ $store == none: ]] || is_held job
    touch finish
    assert_ended 'exit 7'
  done
}

@test "dlock ends by the forwarded signal that killed the command, or with the exit code of one that exits on it" {
  launch setsid dlock run job -- sh -c 'echo > started; exec sleep 60'
  eventually test -e started
  kill -TERM "$launched"
  assert_ended 'signal 15'

  rm started
  launch setsid dlock run job -- sh -c 'trap "exit 9" TERM; echo > started; sleep 60 & wait'
  eventually test -e started
  kill -TERM "$launched"
  assert_ended 'exit 9'
}

@test "a command that ignores a forwarded SIGTERM is not killed by default" {
  launch_noter

  kill -TERM "$launched"

  never_within 5500 has_ended "$launched"
}

@test "--kill-after is the time between a forwarded SIGTERM, but no other signal, and SIGKILL" {
  launch_noter --kill-after 700ms
  kill -HUP "$launched"
  kill -INT "$launched"
  eventually noted 'command INT'
  never_within 1000 has_ended "$launched"
  begin=$(now_ms)

  kill -TERM "$launched"

  assert_ended 'signal 9'
  (($(now_ms) - begin >= 700))
}

@test "signals that were ignored when dlock started are not forwarded, and those that were blocked are" {
  launch env --ignore-signal=HUP,INT,USR1 --block-signal=TERM setsid dlock run job -- env --block-signal= \
    perl -MPOSIX -e 'sigprocmask(SIG_SETMASK, POSIX::SigSet->new); exec "./note", "command"'
  eventually noted 'command ready'

  for signal in HUP INT USR1 TERM USR2; do kill -s "$signal" "$launched"; done
  eventually noted 'command USR2' 'command TERM'

  for signal in HUP INT USR1; do refute noted "command $signal"; done
}

@test "the command has the same signal state as without dlock, even after a wait" {
  # By default, AddressSanitizer handles some signals itself.
  sanitizer=${ASAN_OPTIONS:-}:handle_segv=0:handle_sigbus=0:handle_sigfpe=0
  assert_same_signal_state --default-signal
  assert_same_signal_state --ignore-signal ASAN_OPTIONS="$sanitizer"
  assert_same_signal_state --default-signal --block-signal
  assert_same_signal_state --default-signal --ignore-signal=HUP,PIPE,CHLD,RTMIN+2,WINCH \
    --block-signal=TERM,CHLD,BUS,RTMIN+1,TSTP

  hold job
  env --default-signal "${signal_state[@]}" > without
  env --default-signal dlock run -w 60s job -- "${signal_state[@]}" > with 3>&- &
  waiter=$!
  eventually is_queued job "$waiter"
  let_go
  assert_exits 0 "$waiter"
  diff with without
}

@test "dlock exits with the command's exit code even if SIGCHLD was ignored when it started" {
  status=0
  timeout -s KILL 60 env --ignore-signal=CHLD dlock run job -- sh -c 'exit 7' || status=$?

  assert_status 7
}

@test "a reader that exits ends the run as it would stop the command" {
  run bash -c 'timeout -s KILL 20 env --default-signal dlock run job -- yes | head -n 1; echo "${PIPESTATUS[@]}"'

  assert_equal "$output" $'y\n141 0'
  is_free job
}

@test "a reader of standard error that exits does not end the run" {
  hold job
  mkfifo pipe
  head -n 1 < pipe > first &
  reader=$!
  dlock run -v -w 60s job -- sh -c 'exit 7' 2> pipe 3>&- &
  waiter=$!
  eventually is_queued job "$waiter"
  eventually has_ended "$reader"

  let_go

  assert_exits 7 "$waiter"
}

@test "many signals in a short time do not end the run" {
  launch setsid dlock run job -- env --ignore-signal=USR1,WINCH,RTMIN \
    sh -c 'echo > started; until [ -e finish ]; do sleep 0.05; done; exit 7'
  eventually test -e started

  perl -e 'for (1 .. 2000) { kill $_, $ARGV[0] for "USR1", "WINCH", "CHLD", "RTMIN" }' "$launched"
  touch finish

  assert_ended 'exit 7'
}

# LeakSanitizer does not work under strace.
tracing=(env ASAN_OPTIONS=detect_leaks=0 strace -qq -o trace)

# Prints each system call of a run: its name, and how many calls of that name there were so
# far.
system_calls() {
  "${tracing[@]}" setsid dlock run job -- true > /dev/null 2>&1
  sed -En 's/^([a-z0-9_]+)\(.*/\1/p' trace | awk '{ print $1, ++seen[$1] }'
}

@test "SIGTERM at any moment leaves no command behind and the lock free" {
  system_calls > calls
  total=$(wc -l < calls)
  step=$(((total + 24) / 25))
  local call count line=0

  while read -r call count; do
    ((line++ % step == 0)) || continue
    : > started
    status=0
    timeout -s KILL 60 "${tracing[@]}" -e inject="$call:signal=TERM:when=$count" \
      setsid dlock run job -- sh -c 'echo > started; exec sleep 0.05' > said 2>&1 < /dev/null || status=$?
    echo "TERM at $call $count: $status"
    ((status == 143 || status == 0))
    no_leftovers
    is_free job
    no_sockets
  done < calls
}

@test "SIGTERM before the command starts keeps it from starting" {
  system_calls > calls
  local call count

  # At each of these calls, the lock is not granted yet.
  grep -E '^(mmap|pwrite64|fcntl|ppoll|epoll_create1|signalfd4) 1$' calls > early
  test -s early
  while read -r call count; do
    rm -f started
    status=0
    timeout -s KILL 60 "${tracing[@]}" -e inject="$call:signal=TERM:when=$count" \
      setsid dlock run job -- touch started > said 2>&1 < /dev/null || status=$?
    assert_status 143
    refute test -e started
  done < early
}
