#!/usr/bin/env bats
# dlock list --live: the table of all locks, continuously updated.

setup() {
  load support
  load ../faults/redis
  if [[ $BATS_TEST_DESCRIPTION == *server* ]]; then use_redis_store; else use_private_store; fi
  cd "$BATS_TEST_TMPDIR" || return
  mkfifo keys
}

used() {
  local name
  for name; do dlock run "$name" -- true; done
}

# Shows the list on its own terminal. The file `screen` gets what is written there, and
# the file `tty` the name of the terminal.
show_live() {  # <rows> <columns> [<variable>...]
  SHELL=/bin/sh TERM=xterm env --default-signal "${@:3}" \
    script -qec "stty rows $1 cols $2; tty > tty; exec ${before_dlock:-} dlock list --live" /dev/null \
    <> keys > screen 3>&- &
  terminal=$!
}

# For $before_dlock.
without_timers='strace -qq -o /dev/null -e trace=timerfd_settime -e inject=timerfd_settime:retval=0'

# Prints what the terminal shows, without colors.
frame() { perl -0777 -pe 's/.*\e\[H//s; s/\e\[[?0-9;]*[A-Za-z]//g; s/\r//g' screen; }

shows() { frame | grep -qE "$1"; }
refute_shows() { ! shows "$1"; }

# Writes the list into the file `seen`, which is not a terminal.
follow_live() {  # [<argument>...]
  dlock list --live "$@" > seen 2> said 3>&- &
}

# --- On a terminal ---

@test "changes of a lock are shown as they happen" {
  show_live 24 80
  eventually shows '^no locks'

  hold job
  eventually shows '^job +held +[^ ]+ '
  let_go
  eventually shows '^job +free .* exit 0, '
}

# Asserts that most new locks are shown before the next periodic poll.
assert_shown_when_used() {
  local began took=()
  show_live 24 80
  eventually shows '^no locks'

  for name in a b c d e f g h i; do
    began=$(now_ms)
    used "$name"
    eventually shows "^$name "
    took+=($(($(now_ms) - began)))
  done
  echo "took ${took[*]} ms"
  # The median.
  (($(printf '%s\n' "${took[@]}" | sort -n | sed -n 5p) < 1500))
}

@test "events update the table before the next poll" {
  assert_shown_when_used
}

@test "durations are updated even if nothing happens" {
  hold job
  show_live 24 80
  eventually shows '^job +held'
  first=$(shown_duration)

  eventually shows_another_duration
}
shown_duration() { frame | sed -nE 's/^job +held +[^ ]+ +([0-9.]+m?s).*/\1/p'; }
shows_another_duration() { [[ -n $(shown_duration) && $(shown_duration) != "$first" ]]; }

@test "held locks come first, then those with waiters, if the window is too small" {
  used a b c
  hold x
  local first=$holder
  hold y
  queue x -- true
  kill -STOP "$waiter" # so that x stays free
  let_go "$first"
  eventually is_free_with_a_waiter x

  show_live 5 80

  eventually shows '^and 2 more$'
  assert_equal "$(frame | sed -nE 's/^([a-z]) .*/\1/p' | tr -d '\n')" yxa
}

is_free_with_a_waiter() { [[ $(look "$1" '"\(.state) \(.waiters | length)"') == 'free 1' ]]; }

@test "q, Ctrl-C and SIGTERM end it and restore the terminal and its modes" {
  SHELL=/bin/sh TERM=xterm env --default-signal script -qec '
    tty > tty
    stty -a > before
    dlock list --live
    stty -a > after-q
    trap : INT
    dlock list --live
    stty -a > after-int
    dlock list --live
    echo $? > code
    stty -a > after-term' /dev/null <> keys > screen 3>&- &
  terminal=$!
  eventually is_shown 1
  modes=$(stty -F "$(cat tty)" -a)
  [[ $modes == *' -icanon '* && $modes == *' -echo '* ]]
  printf 'x' 1<> keys
  never_within 200 test -s after-q
  printf 'q' 1<> keys
  eventually is_shown 2
  printf '\003' 1<> keys
  eventually is_shown 3
  pkill -TERM -P "$(pgrep -P "$terminal")" -x dlock
  assert_exits 0 "$terminal"

  assert_equal "$(< code)" 143
  for ended in q int term; do cmp before "after-$ended"; done
  assert_equal "$(grep -oF $'\e[?25h\e[?1049l' screen | wc -l)" 3
}

is_shown() { (($(grep -oF 'no locks' screen | wc -l) == $1)); }

@test "a window that grows shows more locks" {
  used a b c d e f g h
  before_dlock=$without_timers show_live 5 80
  eventually shows '^and 5 more$'

  stty -F "$(cat tty)" rows 20

  eventually shows '^h '
  refute_shows more
}

@test "SIGTERM ends it though the terminal does not accept the whole table" {
  local name live
  name=$(printf 'n%.0s' {1..100})
  used "$name"-{1..30}
  SHELL=/bin/sh TERM=xterm env --default-signal \
    script -qec 'stty rows 100 cols 200; exec dlock list --live < /dev/null' /dev/null \
    <> keys > screen 3>&- &
  terminal=$!
  eventually shows '^n'
  live=$(pgrep -P "$terminal")
  halt "$terminal"
  eventually stops_drawing "$live"

  kill -TERM "$live"

  eventually has_ended "$live"
}

# Has the table drawn again, and tells whether nothing was written.
stops_drawing() { writes_nothing "$1" kill -WINCH "$1"; }  # <pid>

@test "Ctrl-Z restores the terminal, and fg redraws the whole table" {
  SHELL=/bin/sh TERM=dumb env --default-signal \
    script -qec 'PS1="ready> " exec bash --norc --noprofile -i' /dev/null \
    <> keys > screen 3>&- &
  eventually grep -q 'ready> ' screen
  printf 'TERM=xterm dlock list --live\n' 1<> keys
  eventually shows '^no lock'

  printf '\032' 1<> keys
  eventually grep -q Stopped screen
  grep -qF $'\e[?1049l' screen
  : > screen
  printf 'fg\n' 1<> keys

  eventually grep -qF $'\e[?1049h' screen
  eventually shows '^no lock'
}

@test "on a dumb terminal the table is printed again only when it has changed" {
  hold job
  show_live 24 80 TERM=dumb
  eventually grep -q '^job *held' screen
  never_within 2300 eval '(($(grep -c "^LOCK" screen) > 1))'

  let_go
  eventually grep -q '^job *free' screen

  refute grep -qF $'\e' screen
  assert_equal "$(tr -d '\r' < screen | sed -E 's/  .*//')" $'LOCK\njob\n\nLOCK\njob'
}

# --- In a pipe ---

@test "only locks that match the pattern are shown" {
  follow_live 'web-*'
  eventually grep -q '^no lock' seen
  used job web-1

  eventually grep -q '^web-1 ' seen
  refute grep -q '^job ' seen
}

@test "it ends by SIGPIPE if the reader closes the pipe" {
  used job

  run timeout 60 bash -c 'dlock list --live | head -n 1 > /dev/null; echo "${PIPESTATUS[0]}"'

  assert_equal "$output" 141
}

# --- On a server ---

@test "a server outage is shown below the last known state, and the list continues" {
  used job
  show_live 24 120
  eventually shows '^job '

  stop_redis
  eventually shows '^\(as of [^ ]+ ago: .*\)$'
  shows '^job '

  start_redis
  used other
  eventually shows '^other '
  refute_shows 'as of'
}

@test "a user without permission for events on a server still sees changes" {
  redis ACL SETUSER limited on '>secret' '~dlock:*' resetchannels +@all > /dev/null
  used job
  DLOCK_PASSWORD_FILE='' DLOCK_USER=limited DLOCK_PASSWORD=secret follow_live
  eventually grep -q '^job ' seen

  used other

  eventually grep -q '^other ' seen
}

@test "a server that hangs delays neither the durations nor Ctrl-C" {
  hold job
  show_live 24 120
  eventually shows '^job +held '
  kill -STOP "$redis_pid"
  eventually shows '^\(as of [^ ]+ ago: '
  frame > before
  eventually differs before

  printf '\003' 1<> keys

  assert_exits 130 "$terminal"
  kill -CONT "$redis_pid"
}

differs() { ! cmp -s "$1" <(frame); }  # <file>
