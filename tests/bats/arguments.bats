#!/usr/bin/env bats
# The command gets its arguments byte for byte, whatever they look like. Options of dlock
# may be before the verb, before the name and after it.
# shellcheck disable=SC2016  # the commands' own variables

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  printf '#!/bin/sh\nfor word; do printf "%%s\\0" "$word"; done > arrived\n' > take
  chmod +x take
  cp take ./-take
  : > wanted
}

teardown() { kill_leftovers; }

refute() { ! "$@"; }

# Asserts that the command of the last run was called with exactly these arguments.
assert_arrived() {  # [<argument>...]
  (($# == 0)) || printf '%s\0' "$@" > wanted
  cmp arrived wanted || { od -c arrived | head -n 20 >&2; return 1; }
}

# Asserts that dlock refused the command line with 64 and one line, and ran nothing.
assert_refused() {
  assert_status 64
  assert_one_line
  refute test -e arrived
}

@test "a command without arguments gets none" {
  dlock run job -- ./take

  assert_arrived
}

@test "empty arguments arrive" {
  dlock run job -- ./take '' a '' ''

  assert_arrived '' a '' ''
}

@test "spaces, tabs and line breaks in arguments arrive" {
  dlock run job -- ./take ' a  b ' $'\t' $'one\ntwo\n' $'\r'

  assert_arrived ' a  b ' $'\t' $'one\ntwo\n' $'\r'
}

@test "no shell interprets the arguments" {
  local words=('$HOME' '$(id)' '`id`' '*' '~' 'a;b' '&' '|' '>x' "'" '"' "\\" '{a,b}' '!!' '#')

  dlock run job -- ./take "${words[@]}"

  assert_arrived "${words[@]}"
}

@test "bytes that are not text arrive" {
  dlock run job -- ./take $'\377\376' $'\x80' $'a\xc3' $'\x01\x1b[2J\x7f' $'\xed\xa0\x80'

  assert_arrived $'\377\376' $'\x80' $'a\xc3' $'\x01\x1b[2J\x7f' $'\xed\xa0\x80'
}

@test "bytes that are not text arrive without -- as well" {
  dlock run job ./take $'\377\376'

  assert_arrived $'\377\376'
}

@test "arguments after -- that look like dlock's options go to the command" {
  dlock run job -- ./take -c -xzf --ttl 5 -w --wait=x --store s --json -q -v -E 0 --help --version -h

  assert_arrived -c -xzf --ttl 5 -w --wait=x --store s --json -q -v -E 0 --help --version -h
}

@test "arguments after the command that look like dlock's options go to the command" {
  dlock run job ./take -c -xzf --ttl 5 -w --wait=x --store s --json -q -v -E 0 --help --version -h

  assert_arrived -c -xzf --ttl 5 -w --wait=x --store s --json -q -v -E 0 --help --version -h
}

@test "a -- after the command goes to the command" {
  dlock run job ./take -- a -- b --

  assert_arrived -- a -- b --
}

@test "a -- after the command goes to the command even if another precedes it" {
  dlock run job -- ./take -- a --

  assert_arrived -- a --
}

@test "the second of two -- before the command is the command" {
  output=$(dlock run job -- -- ./take 2>&1) || true

  assert_output_contains 'dlock: job: --: '
  refute test -e arrived
}

@test "a lone - is an argument, and can be the command" {
  printf '#!/bin/sh\nexec ./take "$@"\n' > -
  chmod +x ./-

  PATH=$PATH: dlock run job - - a

  assert_arrived - a
}

@test "options may be between the name and the command" {
  dlock run job -w 5s -q --label=text ./take -w 1

  assert_arrived -w 1
}

@test "the value of an option is taken literally, and the last one counts" {
  local value
  for value in x -x -- --quiet '[a,b]' '{}' 'a=b' ' ' '"'; do
    run dlock run --label first --label "$value" job -- \
      sh -c 'dlock status --json job | jq -r ".holders[].label"'
    assert_equal "$output" "$value"
    run dlock run --label="$value" job -- sh -c 'dlock status --json job | jq -r ".holders[].label"'
    assert_equal "$output" "$value"
  done
}

@test "an option without its value is refused, wherever it is" {
  local words
  for words in '-w' '--wait' '-q --wait' '--wait 5s -w' '--label'; do
    # shellcheck disable=SC2086
    run dlock run $words
    assert_refused
    assert_output_contains 'needs a value'
  done
}

@test "options between the name and the command go to dlock" {
  run dlock run job -v -- ./take

  assert_output_contains 'dlock: job: '
}

@test "options may be before the verb, before the name and after it" {
  dlock --namespace a run -w 5s job --color never -- ./take x

  assert_arrived x
}

@test "short options and their values may be combined in one word" {
  dlock run -qw5s job -E9 ./take -E1

  assert_arrived -E1
}

@test "an option that is given twice has its last value" {
  run dlock run --namespace a --namespace b job -- printenv DLOCK_NAMESPACE

  assert_equal "$output" b
}

@test "a -- before the name ends dlock's options, even those after the name" {
  PATH=.:$PATH dlock run -- job -take -v

  assert_arrived -v
}

@test "a -- before the name and a -- before the command can be combined" {
  dlock run -- job -- ./take a

  assert_arrived a
}

@test "a -- before the name allows a name that begins with -" {
  dlock run -- -job ./take a

  assert_arrived a
}

@test "an unknown option before the name is a usage error" {
  run dlock run --frobnicate job -- ./take

  assert_refused
  assert_output_contains '--frobnicate'
}

@test "an unknown option between the name and the command is a usage error" {
  run dlock run job --frobnicate ./take

  assert_refused
  assert_output_contains '--frobnicate'
}

@test "an unknown short option between the name and the command is a usage error" {
  run dlock run job -c ./take

  assert_refused
  assert_output_contains '-c'
}

@test "an unknown short option among known ones is a usage error" {
  run dlock run job -qxv ./take

  assert_refused
}

@test "an option cannot be abbreviated" {
  run dlock run job --time 5s ./take

  assert_refused
}

@test "a command that begins with - is a usage error without --" {
  PATH=.:$PATH run dlock run job -take a

  assert_refused
}

@test "a command that begins with - can be run after --" {
  PATH=.:$PATH dlock run job -- -take a

  assert_arrived a
}

@test "a missing command is a usage error" {
  run dlock run job

  assert_refused
}

@test "a missing command after -- is a usage error" {
  run dlock run job --

  assert_refused
}

@test "an option without its value does not silently take the command as its value" {
  run dlock run job --wait ./take

  assert_refused
}

@test "--help after the name goes to dlock" {
  run dlock run job --help

  assert_status 0
  assert_output_contains 'Usage: dlock run '
}

@test "two thousand arguments arrive" {
  local many=()
  for number in {1..2000}; do many+=("$number and so on"); done

  dlock run job -- ./take "${many[@]}"

  assert_arrived "${many[@]}"
}

@test "an argument of 100,000 bytes arrives" {
  local long
  printf -v long '%0100000d' 7

  dlock run job -- ./take "$long"

  assert_arrived "$long"
}

# True if the kernel starts dlock itself with an argument of this length.
is_accepted() {  # <length>
  local long
  printf -v long "%0$1d" 7
  dlock run "$name" -- true "$long" 2> err || grep -q '^dlock: ' err
}

# Sets $longest to the length of the longest argument that dlock can be started with.
find_longest_argument() {
  local middle too_long=131072
  longest=1
  while ((too_long - longest > 1)); do
    middle=$(((longest + too_long) / 2))
    if is_accepted "$middle"; then longest=$middle; else too_long=$middle; fi
  done
}

# The command fails where dlock could be started, because dlock adds variables to the
# environment, and several contain the name.
@test "a command line that is too long for the command exits with 126, and frees the lock" {
  local longest long name stack
  printf -v name '%0255d' 7
  stack=$(ulimit -S -s)
  ulimit -S -s 512  # arguments may take a quarter of it
  find_longest_argument
  printf -v long "%0${longest}d" 7

  run dlock run "$name" -- true "$long"
  ulimit -S -s "$stack"

  assert_status 126
  assert_one_line
  run dlock status "$name"
  assert_status 1
}

@test "DLOCK_NAME is the name unchanged, whatever printable text it is" {
  local name
  for name in 'a b' '../../x' . .. / '%s%n' '$(id)' "'\"" '{}' 'a=b' 'Ünïcödé 🔒' '*' "$(printf '%0255d' 7)"; do
    run dlock run -- "$name" printenv DLOCK_NAME
    assert_equal "$output" "$name"
  done
}

@test "names that differ in any way are different locks" {
  dlock run 'a' -- dlock run 'A' -- dlock run 'a b' -- dlock run 'a/' -- dlock run 'a%20' -- \
    dlock run 'ä' -- dlock run 'a=' -- dlock run '{a}' -- ./take nested

  assert_arrived nested
}

@test "a name of 256 bytes is a usage error" {
  run dlock run "$(printf '%0256d' 7)" -- ./take

  assert_refused
}

@test "an empty name is a usage error" {
  run dlock run '' -- ./take

  assert_refused
}

@test "a name with control characters or bytes that are not UTF-8 is a usage error" {
  for name in $'a\nb' $'\e[2J' $'a\x7f' $'\xc2\x9b' $'\xff' $'\xc0\xaf' $'\xed\xa0\x80' $'a\xc3'; do
    run dlock run -- "$name" ./take
    assert_refused
  done
}
