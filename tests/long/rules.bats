#!/usr/bin/env bats
# The rules and the scripts agree in a million steps, with a new seed each day:
#
#   DLOCK_CONTRACT_TESTS=build/release/tests/dlock_contract_tests bats tests/long/rules.bats

@test "the rules and the scripts agree after each of a million steps" {
  local seed=${DLOCK_TEST_SEED:-$(date +%j000)}

  DLOCK_TEST_SEED=$seed DLOCK_TEST_STEPS=170000 run \
    "$DLOCK_CONTRACT_TESTS" --gtest_brief=1 --gtest_filter='*RulesAgainstLua*'

  echo "from seed $seed: $output"
  [[ $status -eq 0 && $output == *'] 8 tests'* ]]
}
