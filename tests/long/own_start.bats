#!/usr/bin/env bats
# How a release build with -DDLOCK_OWN_START=ON starts (src/static_start.cpp): it executes no
# CPUID, and works. The file builds that program, which takes minutes.
#
#   bats tests/long/own_start.bats

setup_file() {
  load ../bats/support
  cmake --preset release -S "$DLOCK_SOURCE" -B "$BATS_FILE_TMPDIR/build" -DDLOCK_OWN_START=ON
  cmake --build "$BATS_FILE_TMPDIR/build" --target dlock
  c++ -std=c++20 -O1 -o "$BATS_FILE_TMPDIR/cpuid_check" "$BATS_TEST_DIRNAME/cpuid_check.cpp"
}

setup() {
  export DLOCK_BIN=$BATS_FILE_TMPDIR/build/dlock
  load ../bats/support
  use_private_store
}

teardown() { kill_leftovers; }

@test "dlock executes no CPUID when it starts" {
  run "$BATS_FILE_TMPDIR/cpuid_check" dlock run job -- echo ran 3>&-

  assert_equal "$status ${lines[*]}" '0 ran no cpuid'
}

@test "a program that glibc starts executes CPUID" {
  run "$BATS_FILE_TMPDIR/cpuid_check" /bin/true 3>&-

  assert_equal "$status $output" '0 cpuid'
}

@test "a program with its own start code runs commands like any other" {
  bats "$DLOCK_SOURCE/tests/bats/run.bats" "$DLOCK_SOURCE/tests/bats/errors.bats"
}
