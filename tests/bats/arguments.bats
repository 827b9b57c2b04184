#!/usr/bin/env bats
# The command gets its arguments byte for byte, whatever they look like. Options of dlock
# may be before the verb, before the name and after it. (tests/unit/words_test.cpp has what is
# an option, a value or the command.)
# shellcheck disable=SC2086  # words

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  printf '#!/bin/sh\nfor word; do printf "%%s\\0" "$word"; done > arrived\n' > take
  chmod +x take
  cp take ./-take
  : > wanted
}

# Asserts that the command of the last run was called with exactly these arguments.
assert_arrived() {  # [<argument>...]
  (($# == 0)) || printf '%s\0' "$@" > wanted
  cmp arrived wanted || { od -c arrived | head -n 20 >&2; return 1; }
}

@test "the arguments arrive byte for byte, after -- or without it, and no shell interprets them" {
  local words=(-c -xzf --ttl 5 -w --wait=x --store s --json -q -v -E 0 --help --version -h -- a -- ''
    ' a  b ' $'\t' $'one\ntwo\n' $'\r' '$HOME' '$(id)' '`id`' '*' '~' 'a;b' '&' '|' '>x' "'" '"' "\\" '{a,b}' '!!' '#'
    $'\377\376' $'\x80' $'a\xc3' $'\x01\x1b[2J\x7f' $'\xed\xa0\x80' - '' --)

  dlock run job -- ./take "${words[@]}"
  assert_arrived "${words[@]}"
  rm arrived
  dlock run job ./take "${words[@]}"
  assert_arrived "${words[@]}"
  : > wanted
  dlock run job -- ./take
  assert_arrived
}

@test "options may be before the verb, before the name and after it, combined, until -- or the command" {
  printf '#!/bin/sh\nexec ./take "$@"\n' > -
  chmod +x ./-
  PATH=$PATH:.
  local words
  for words in '--namespace a run -w 5s job --color never -- ./take' 'run -qw5s job -E9 ./take' 'run job -w 5s --label=text ./take' \
    'run -- job ./take' 'run -- -job ./take' 'run -- job -- ./take' 'run -- job -take' 'run job -- -take' 'run job -'; do
    rm -f arrived
    echo "dlock $words"
    dlock $words -v x -- -E1
    assert_arrived -v x -- -E1
  done
}

@test "the second of two -- before the command is the command" {
  output=$(dlock run job -- -- ./take 2>&1) || true
  assert_output_contains 'dlock: job: --: '
  refute test -e arrived
}

@test "the value of an option is taken literally, and the last one counts" {
  local value
  for value in -x -- '[a,b]' ' '; do
    run dlock run --label first --label "$value" job -- dlock status --json job
    assert_equal "$(json '.holders[].label')" "$value"
    run dlock run --label="$value" job -- dlock status --json job
    assert_equal "$(json '.holders[].label')" "$value"
  done
}

@test "a command line that makes no sense is refused with 64 and one line, and nothing runs" {
  local words
  PATH=.:$PATH
  while read -r words; do
    echo "dlock run $words"
    run dlock run ${words%|*}
    assert_message 64 "${words##*|}"
    refute test -e arrived
  done << 'END'
-w|needs a value
-q --wait|needs a value
job --wait ./take|
--frobnicate job -- ./take|--frobnicate
job --frobnicate ./take|--frobnicate
job -c ./take|-c
job -qxv ./take|
job --time 5s ./take|
job -take a|
job|
job --|
END
  for name in '' $'a\nb' $'\xff'; do
    run dlock run -- "$name" ./take
    assert_message 64
  done
  refute test -e arrived
}

@test "two thousand arguments, and one of 100,000 bytes, arrive" {
  local long many=()
  printf -v long '%0100000d' 7
  for number in {1..2000}; do many+=("$number and so on"); done

  dlock run job -- ./take "${many[@]}" "$long"

  assert_arrived "${many[@]}" "$long"
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

  assert_message 126
  run dlock status "$name"
  assert_status 1
}

@test "DLOCK_NAME is the name unchanged, whatever printable text it is" {
  local name
  for name in '../../x' . / '%s%n' '$(id)' "'\"" 'a=b Ünïcödé 🔒 {}*' "$(printf '%0255d' 7)"; do
    run dlock run -- "$name" printenv DLOCK_NAME
    assert_equal "$output" "$name"
  done
}
