# Helpers for the tests of rate limits. They need support.bash.
# shellcheck disable=SC2034  # what is set here is for the tests

# Starts a claim that waits for a turn in the background, and returns once it has a place. Its
# messages go to the file NAME.said, its pid to $waiter.
await_turn() {  # <name> <rate> [--] [<command>...]
  : > "$BATS_TEST_TMPDIR/$1.said"
  dlock limit -v --wait forever "$@" 2> "$BATS_TEST_TMPDIR/$1.said" 3>&- &
  waiter=$!
  eventually has_turn "$1"
}

has_turn() { grep -q 'turn in' "$BATS_TEST_TMPDIR/$1.said"; }
