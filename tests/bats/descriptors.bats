#!/usr/bin/env bats
# File descriptors: the command inherits those of dlock's caller and one more, the session.
# tests/faults/bare.bats has too few of them.

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  # Writes its own descriptors to a file. A subshell opens the file, so the file is not among
  # them.
  list=(sh -c '(find "/proc/$$/fd" -mindepth 1 -printf "%f %l\n" > "$0"); :')
}

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

@test "the command inherits all descriptors and one for the session" {
  ulimit -S -n 1024
  echo > seven
  "${list[@]}" without 7< seven 8<&0 9> nine
  dlock run job -- "${list[@]}" with 7< seven 8<&0 9> nine

  run added without with

  [[ $output == +([0-9])" $BATS_TEST_TMPDIR/store/sessions" ]]
  # One that scripts do not use.
  assert_between "${output%% *}" 500 1023
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
