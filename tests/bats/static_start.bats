#!/usr/bin/env bats
# How the static release build starts (src/static_start.cpp): without a question to the
# processor. That a program finds all in order behind it is what every other test shows.

setup() {
  load support
  use_private_store
  questions=$BATS_TEST_TMPDIR/questions
  c++ -std=c++20 -O1 -o "$questions" "$BATS_TEST_DIRNAME/questions.cpp"
}

teardown() { kill_leftovers; }

@test "dlock asks the processor nothing when it starts" {
  run "$questions" dlock run job -- echo ran 3>&-

  assert_equal "$status ${lines[*]}" '0 ran does not ask'
}

@test "a program that glibc starts asks the processor" {
  run "$questions" /bin/true 3>&-

  assert_equal "$status $output" '0 asks'
}
