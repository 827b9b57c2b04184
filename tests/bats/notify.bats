#!/usr/bin/env bats
# dlock run --notify: what a service manager is told, by a fake one and by systemd itself.

# systemd of a user in its own namespaces, with the units that the tests write. It must not be
# the first process there, which only the system's may be.
setup_file() {
  load support
  ((EUID == 0)) || return 0
  export units=$BATS_FILE_TMPDIR/config/systemd/user manager
  mkdir -p "$units"
  unshare --mount --pid --fork --kill-child --mount-proc --cgroup --propagation private sh -c '
    mount -t tmpfs none /run && mkdir -p /run/systemd/system /run/user &&
    env XDG_RUNTIME_DIR=/run/user XDG_CONFIG_HOME="$1" /lib/systemd/systemd \
      --user --log-target=null --unit=basic.target
    exit' - "$BATS_FILE_TMPDIR/config" > /dev/null 2>&1 3>&- &
  manager=$!
  disown "$manager"
  eventually systemctl_there is-system-running
}

teardown_file() { [[ -z ${manager:-} ]] || kill -KILL "$manager"; }

setup() {
  load support
  use_private_store
  log=$BATS_TEST_TMPDIR/log
  unset NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID
}

# --- A fake service manager ---

# Receives messages on NOTIFY_SOCKET, and writes each as one line to $log, with ; for line feeds.
listen() {  # [<address>]
  export NOTIFY_SOCKET=${1:-$BATS_TEST_TMPDIR/notify}
  /usr/bin/python3 -c 'import socket, sys
address, log = sys.argv[1:]
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind("\0" + address[1:] if address[0] == "@" else address)
with open(log, "w", buffering=1) as lines:
    while True:
        lines.write(receiver.recv(65536).decode().replace("\n", ";") + "\n")' "$NOTIFY_SOCKET" "$log" 3>&- &
  listener=$!
  eventually test -e "$log"
}

told() { grep -qE -e "$1" "$log"; }

assert_told() { told "$1" || { echo "not told: $1" >&2; cat "$log" >&2; return 1; }; }

order_of() { grep -oE "$1" "$log" | tr '\n' ' '; }

@test "while it waits, the service manager is told for whom, and that the start takes longer" {
  listen
  hold job --label 'the nightly backup'

  dlock run job --notify dlock --wait 1m -- true 3>&- &
  local waiter=$!
  eventually told '^STATUS=waiting: held by .*the nightly backup.*position 1 of 1$'

  assert_told '^EXTEND_TIMEOUT_USEC=[0-9]{7,}'
  refute told READY
  let_go
  assert_exits 0 "$waiter"
  eventually told '^STATUS=$'
  assert_equal "$(order_of 'READY=1|STOPPING=1')" 'READY=1 STOPPING=1 '
}

@test "on a server, the command has started when the service manager is told that it is ready" {
  use_server_as_store
  listen @dlock-test-$$

  dlock run job --notify dlock -- sh -c 'touch "$1"; read -r _ < "$2"' - "$BATS_TEST_TMPDIR/started" \
    <(eventually told READY; echo) 3>&- &

  eventually test -e "$BATS_TEST_TMPDIR/started"
  assert_exits 0 $!
  eventually told '^STATUS=$'
  assert_equal "$(order_of 'READY=1|STOPPING=1')" 'READY=1 STOPPING=1 '
}

@test "a signal that stops the command stops the unit at once, and one that reloads it does not" {
  listen
  dlock run job --notify dlock -- sh -c 'trap "touch \"$1\"" HUP; trap "read -r _ < \"$2\"; exit 3" TERM
    touch "$3"; while :; do sleep 0.1; done' - "$BATS_TEST_TMPDIR/reloaded" \
    <(eventually told '^STOPPING=1;STATUS=waiting for the command, which got SIGTERM$'; echo) \
    "$BATS_TEST_TMPDIR/traps" 3>&- &
  local run=$!
  eventually told READY
  eventually test -e "$BATS_TEST_TMPDIR/traps"
  kill -HUP "$run"
  eventually test -e "$BATS_TEST_TMPDIR/reloaded"
  refute told STOPPING

  kill -TERM "$run"

  assert_exits 3 "$run"
  eventually told '^STATUS=$'
  assert_told '^STATUS=releasing the lock$'
  assert_equal "$(order_of 'READY=1|STOPPING=1')" 'READY=1 STOPPING=1 '
}

# Runs a command that gets SIGTERM from dlock, and waits for what the service manager is then told.
stopped_because() {  # <why> <how: a function> [<option of dlock>...]
  local why="^STOPPING=1;STATUS=stopping the command: $1\$" started=$BATS_TEST_TMPDIR/started.$2
  dlock run job --notify dlock "${@:3}" -- sh -c 'trap "read -r _ < \"$1\"; exit" TERM; touch "$2"
    while :; do sleep 0.1; done' - <(eventually told "$why"; echo) "$started" 3>&- &
  local run=$!
  eventually test -e "$started"
  "$2"
  wait "$run" || true
  assert_told "$why"
}

@test "a command that dlock stops stops the unit at once, and the status says why" {
  listen
  # The command must have begun by then, which takes long on a busy machine.
  stopped_because '--timeout is over' true --timeout 3s
  use_server_as_store
  break_job() { dlock break job --yes; }
  stopped_because "$(id -un)@$(hostname) took the lock with dlock break" break_job
}

@test "a signal while it waits is no shutdown of a unit that was not ready" {
  listen
  hold job
  dlock run job --notify dlock --wait 1m -- true 3>&- &
  local waiter=$!
  eventually told '^STATUS=waiting: held by '

  kill -TERM "$waiter"

  assert_exits 143 "$waiter"
  refute told 'READY|STOPPING'
}

prints_variables='echo "$NOTIFY_SOCKET,$WATCHDOG_USEC,$WATCHDOG_PID"'

@test "with --notify dlock, the command does not see the protocol" {
  listen
  export WATCHDOG_USEC=60000000

  run dlock run job --notify dlock -- sh -c "$prints_variables"

  assert_equal "$status $output" '0 ,,'
}

@test "with --notify command, the command speaks for itself" {
  listen
  export WATCHDOG_USEC=60000000

  run sh -c 'WATCHDOG_PID=$$ exec dlock run job --notify command -- sh -c "$1; echo \$\$"' - "$prints_variables"

  assert_status 0
  assert_equal "${lines[0]}" "$NOTIFY_SOCKET,60000000,${lines[1]}"
  eventually told '^STATUS=$'
  assert_told '^NOTIFYACCESS=all;EXTEND_TIMEOUT_USEC=90000000$'
  refute told 'READY|STOPPING|MAINPID'
}

@test "without --notify, and with off, nothing is told and the command gets the variables" {
  listen
  local options
  for options in '' '--notify off'; do
    # shellcheck disable=SC2086
    run dlock run job $options -- sh -c "$prints_variables"
    assert_equal "$status $output" "0 $NOTIFY_SOCKET,,"
  done
  [[ ! -s $log ]]
}

@test "the watchdog is answered while dlock waits and while the command runs" {
  listen
  hold job
  WATCHDOG_USEC=200000 dlock run job --notify dlock --wait 1m -- sh -c 'read -r _ < "$1"' - \
    <(eventually answers_after READY; echo) 3>&- &

  local waiter=$!
  eventually answers_after EXTEND
  let_go

  assert_exits 0 "$waiter"
}

answers_after() { [[ $(sed -n "/$1/,\$p" "$log" | grep -c 'WATCHDOG=1') -ge 3 ]]; }

@test "the watchdog of another process is not answered" {
  listen

  WATCHDOG_USEC=200000 WATCHDOG_PID=1 dlock run job --notify dlock -- true

  eventually told '^STATUS=$'
  refute told WATCHDOG
}

@test "a run that does not get the lock tells why, and does not become ready" {
  listen
  hold job

  run dlock run job --notify dlock -- true

  assert_status 75
  eventually told '^STATUS=held by '
  refute told 'READY|STOPPING'
}

@test "without a service manager --notify does nothing, and one that cannot be reached is a warning" {
  run dlock run job --notify dlock -- echo ran
  assert_equal "$status $output" '0 ran'

  local address
  for address in /nowhere/notify no-address "/$(printf '%0120d' 0)" vsock:1; do
    NOTIFY_SOCKET=$address run_apart dlock run job --notify dlock -- sh -c 'echo "ran$NOTIFY_SOCKET"'
    assert_equal "$status $output" '0 ran'
    [[ $stderr == 'dlock: job: warning: cannot notify the service manager: '* && $stderr != *$'\n'* ]]
  done
}

@test "a service manager that does not read delays nothing" {
  listen
  kill -STOP "$listener"
  /usr/bin/python3 -c 'import socket, sys
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
try:
    while True: sender.sendto(b"STATUS=full", sys.argv[1])
except BlockingIOError: pass' "$NOTIFY_SOCKET"

  run timeout 60 dlock run job --notify dlock -- echo ran

  kill -CONT "$listener"
  assert_equal "$status $output" '0 ran'
}

# --- systemd ---

systemctl_there() {
  nsenter --target "$(pgrep -P "$manager")" --mount --pid \
    env XDG_RUNTIME_DIR=/run/user systemctl --user --no-pager "$@"
}

# Writes a unit for a run of `job`, and starts it.
start_unit() {  # <name> <setting> <option and command>
  cat > "$units/$1.service" << END
[Service]
$2
KillMode=mixed
ExecStart=$DLOCK_BIN run --store $DLOCK_STORE job $3
END
  systemctl_there daemon-reload
  systemctl_there start --no-block "$1"
}

stop_unit() { systemctl_there stop "$1"; }

property() { systemctl_there show "$1" --value -p "$2"; }

status_says() { [[ $(property waiter StatusText) == "$1"* ]]; }

is_in_state() { [[ $(property "$1" ActiveState) == "$2" ]]; }

is_held_there() { [[ $(dlock status job --json | jq .state) == '"held"' ]]; }

@test "a unit with -E 200 as in the examples succeeds if the lock is held, and fails if its job exits with 75" {
  needs_root
  grep -qx SuccessExitStatus=200 "$DLOCK_SOURCE/examples/dlock-nightly.service"
  start_unit holder Type=exec '-- sleep 60'
  eventually is_held_there
  start_unit refused $'Type=oneshot\nSuccessExitStatus=200' '-E 200 -- true'
  systemctl_there start refused
  start_unit strict Type=oneshot '-E 200 -- true'
  eventually is_in_state strict failed
  assert_equal "$(property strict ExecMainStatus)" 200

  stop_unit holder
  start_unit failing $'Type=oneshot\nSuccessExitStatus=200' '-E 200 -- sh -c "exit 75"'
  eventually is_in_state failing failed
  assert_equal "$(property failing ExecMainStatus) $(property failing Result)" '75 exit-code'
}

@test "systemd shows for whom a unit waits, beyond the time limit of its start, until it is active" {
  needs_root
  start_unit holder Type=exec '-- sleep 60'
  eventually is_held_there
  start_unit waiter $'Type=notify\nTimeoutStartSec=3' '--notify dlock --wait 1m -- sleep 60'
  eventually status_says 'waiting: held by '

  never_within 3500 is_not_activating
  stop_unit holder
  eventually status_says 'holding the lock'

  assert_equal "$(property waiter ActiveState)" active
  stop_unit waiter
  assert_equal "$(property waiter Result) $(property waiter StatusText)" 'success '
}

is_not_activating() { ! is_in_state waiter activating; }

@test "under systemd, the command of --notify command says itself that the unit is ready" {
  needs_root
  start_unit talker $'Type=notify\nNotifyAccess=all' \
    "--notify command -- sh -c 'until [ -e $BATS_TEST_TMPDIR/go ]; do sleep 0.05; done; systemd-notify --ready; exec sleep 60'"
  eventually is_held_there
  is_in_state talker activating

  touch "$BATS_TEST_TMPDIR/go"

  eventually is_in_state talker active
  stop_unit talker
  assert_equal "$(property talker Result)" success
}

@test "a run works in a unit that may neither change priorities nor make setgid files" {
  needs_root
  install -d -m 2770 "$BATS_TEST_TMPDIR/shared"
  DLOCK_STORE=local:$BATS_TEST_TMPDIR/shared start_unit shared $'Type=oneshot\nRestrictSUIDSGID=yes' '-- true'
  systemctl_there start shared

  use_server_as_store
  start_unit filtered $'Type=oneshot\nSystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources' \
    '--timeout 1m --stragglers kill -- true'
  systemctl_there start filtered
  assert_equal "$(look job .last_run.exit_code)" 0
}
