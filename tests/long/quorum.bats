#!/usr/bin/env bats
# The rules of a quorum hold over a million random schedules, from seeds of the day:
#
#   DLOCK_UNIT_TESTS=build/release/tests/dlock_unit_tests bats tests/long/quorum.bats

@test "one holder, fences that grow and nobody who starves in each of a million schedules" {
  local seed=${DLOCK_TEST_SEED:-$(date +%j000000)}

  DLOCK_TEST_SEED=$seed DLOCK_TEST_ROUNDS=350000 run \
    "$DLOCK_UNIT_TESTS" --gtest_brief=1 --gtest_filter='QuorumSchedules.*'

  echo "from seed $seed: $output"
  [[ $status -eq 0 && $output == *'] 3 tests'* ]]
}
