#!/usr/bin/env bats
# File descriptors: the command inherits those of dlock's caller and one more, the session.
# If descriptors are exhausted, dlock neither hangs nor reports success.
# shellcheck disable=SC2016  # the commands' own variables
# shellcheck disable=SC2154  # hold and queue set holder and waiter

setup() {
  load support
  load ../faults/locks
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  # Writes its own descriptors to a file. A subshell opens the file, so the file is not among
  # them.
  list=(sh -c '(find "/proc/$$/fd" -mindepth 1 -printf "%f %l\n" > "$0"); :')
}

teardown() { kill_leftovers; }

# Compares two lists of descriptors, and prints those that a run adds. Fails if a descriptor
# is missing.
added() {  # <without> <with>
  refute grep -vxFf "$2" "$1" || return
  grep -vxFf "$1" "$2"
}

# Writes to a file which of the descriptors 0 to 2 are open in the command.
# shellcheck disable=SC2034  # used by an eval
standard=(sh -c 'for fd in 0 1 2; do [ ! -e /proc/self/fd/$fd ] || open="$open $fd"; done; echo "open:$open" > "$0"')

# True if no message of dlock is in its own files.
store_is_clean() { refute grep -rq 'dlock: ' store; }

@test "the command reads standard input byte for byte from the caller's position, and leaves the rest to the next one" {
  head -c 100000 /dev/urandom > sent
  dlock run job -- cat < sent > received
  cmp sent received

  printf 'one\ntwo\nthree\n' > lines
  { read -r first; dlock run job -- sh -c 'read -r line; echo "$line"'; cat; } < lines > rest
  assert_equal "$first $(< rest)" $'one two\nthree'
}

@test "the command can read from descriptor 7 and write to descriptor 8" {
  echo seven > in

  dlock run job -- sh -c 'cat <&7 >&8' 7< in 8> out

  assert_equal "$(< out)" seven
}

@test "the command inherits all descriptors and one for the session" {
  echo > seven
  "${list[@]}" without 7< seven 8<&0 9> nine
  dlock run job -- "${list[@]}" with 7< seven 8<&0 9> nine

  run added without with

  [[ $output == +([0-9])" $BATS_TEST_TMPDIR/store/sessions" ]]
}

@test "a command that had to wait inherits no other descriptors" {
  hold job
  queue job true
  "${list[@]}" without < /dev/null 3>&-
  dlock run -w 60s job -- "${list[@]}" with < /dev/null 3>&- &
  last=$!
  eventually is_queued job "$last"

  let_go

  assert_exits 0 "$last"
  run added without with
  assert_equal "${#lines[@]}" 1
}

@test "a command inherits no other descriptors because of a slot or other options, and on none: none at all" {
  echo 'color = "never"' > dlock.toml
  local options
  "${list[@]}" without
  dlock run -n 3 job -- dlock run -n 3 other -- dlock run -s third -- true
  for options in '-n 3' '-v --report report --label text --timeout 60s --jitter 1ms --stragglers kill'; do
    # shellcheck disable=SC2086  # words
    dlock --config dlock.toml run $options job -- "${list[@]}" with 2> err
    "${list[@]}" without 2> err
    run added without with
    assert_equal "${#lines[@]}" 1
  done

  "${list[@]}" without
  dlock --store none: run job -- "${list[@]}" with
  cmp with without
}

@test "the session has a descriptor number that scripts do not use" {
  ulimit -S -n 1024
  "${list[@]}" without
  dlock run job -- "${list[@]}" with

  run added without with

  assert_between "${output%% *}" 500 1023
}

@test "the session does not replace a descriptor of the caller with a high number" {
  ulimit -S -n 1024
  for number in {1000..1010}; do
    echo "$number" > file
    eval "exec $number< file"
    rm file
  done

  dlock run job -- bash -c 'for number in {1000..1010}; do cat <&$number; done' > read_back

  assert_equal "$(tr '\n' ' ' < read_back)" "$(echo {1000..1010}) "
}

@test "the command keeps the session even if dlock is killed" {
  hold job

  kill -KILL "$holder"
  eventually has_ended "$holder"

  is_held job
}

@test "a command that closes all descriptors above 2 still holds the lock" {
  dlock run job -- bash -c '
    for fd in /proc/self/fd/*; do ((${fd##*/} < 3)) || eval "exec ${fd##*/}>&-" 2> /dev/null; done
    touch started; sleep 60' 3>&- &
  eventually test -e started

  run dlock run job -- true

  assert_status 75
}

@test "standard descriptors that were closed for dlock are closed for the command" {
  for closed in '<&-' '>&-' '2>&-' '<&- >&-' '<&- 2>&-' '>&- 2>&-' '<&- >&- 2>&-'; do
    eval "\"\${standard[@]}\" without $closed"
    eval "dlock run job -- \"\${standard[@]}\" with $closed"
    assert_equal "$closed $(< with)" "$closed $(< without)"
  done
}

@test "with closed standard descriptors, the command inherits only the session" {
  "${list[@]}" without <&- >&- 2>&-
  dlock run job -- "${list[@]}" with <&- >&- 2>&-

  run added without with

  assert_equal "${#lines[@]}" 1
}

@test "without standard error, no message of dlock gets into its files or its report, and the exit code is as with it" {
  dlock run -v --report report job -- true 2>&-
  assert_equal "$(jq -r .outcome report)" ran
  status=0
  dlock run -v job -- sh -c 'exit 7' <&- >&- 2>&- || status=$?
  assert_status 7
  status=0
  dlock run -v job -- ./missing <&- 2>&- || status=$?
  assert_status 127
  hold job
  status=0
  dlock run -v job -- true <&- >&- 2>&- || status=$?
  assert_status 75

  store_is_clean
}

@test "without standard output, verbs that print succeed" {
  dlock run job -- true

  dlock list >&-
  dlock history job >&-
  dlock --help >&-
  dlock cache key -- echo stored >&-
  assert_equal "$(dlock cache key -- echo other)" stored
}

@test "an unwritable standard output or error does not change the exit code" {
  status=0
  dlock run -v job -- sh -c 'exit 7' > /dev/full 2> /dev/full || status=$?

  assert_status 7
}

# Runs dlock with so few descriptors, and asserts that it either ran the command or said
# in one line why not. If dlock cannot load its libraries, the loader prints the message.
assert_works_or_says_so() {  # <descriptors> [<option>...]
  rm -f ran
  status=0
  timeout -s KILL 60 prlimit --nofile="$1" "$(type -P dlock)" run "${@:2}" job -- "$tool" > said 2>&1 < /dev/null || status=$?
  output=$(< said)
  if [[ -e ran ]]; then
    assert_equal "$status" 0
  else
    refute test "$status" = 0 && refute test "$status" = 124 && ((status < 128)) &&
      { [[ $output == *'while loading shared libraries'* ]] || assert_one_line; }
  fi || { echo "with $1 descriptors: $status, $output" >&2; return 1; }
}

# Sets $least to the least number of descriptors with which dlock itself can report an error.
# The sanitizers need some descriptors for themselves.
find_least() {
  least=3
  if grep -q __ubsan "$DLOCK_BIN"; then least=20; fi
}

# A command that needs no descriptors: it creates the file `ran` by its name.
make_tool() {
  tool=$PWD/tool
  printf '#!%s\n: > ran\n' "$(type -P dash || type -P sh)" > tool
  chmod +x tool
}

@test "with any small number of descriptors, dlock runs the command or says why not, and forty suffice" {
  make_tool
  find_least

  for ((number = least; number <= 40; number++)); do
    assert_works_or_says_so "$number"
  done
  # A run that had left the lock held would have been in the way of the last one.
  test -e ran
}

@test "with any small number of descriptors, no command runs under a held lock, and dlock ends" {
  make_tool
  find_least
  hold job

  for ((number = least; number <= 24; number++)); do
    assert_works_or_says_so "$number" -w 20ms
    refute test -e ran
  done
}

@test "a run that has no descriptors left after the start continues" {
  hold job
  prlimit --pid "$holder" --nofile=3:

  # After a second it listens for news of the lock.
  never_within 1500 has_ended "$holder"
  prlimit --pid "$holder" --nofile=100:
  let_go

  assert_exits 0 "$holder"
  is_free job
}
