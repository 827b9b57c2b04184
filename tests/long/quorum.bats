#!/usr/bin/env bats
# The rules of a quorum hold in a million random schedules, with a new seed each day:
#
#   DLOCK_UNIT_TESTS=build/release/tests/dlock_unit_tests bats tests/long/quorum.bats

@test "each of a million schedules has one holder at a time, growing fences and no starving waiter" {
  local seed=${DLOCK_TEST_SEED:-$(date +%j000000)}

  DLOCK_TEST_SEED=$seed DLOCK_TEST_ROUNDS=350000 run \
    "$DLOCK_UNIT_TESTS" --gtest_brief=1 --gtest_filter='QuorumSchedules.*'

  echo "from seed $seed: $output"
  [[ $status -eq 0 && $output == *'] 3 tests'* ]]
}
