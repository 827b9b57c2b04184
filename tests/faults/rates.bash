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

# Runs eight processes that use a limit of 5/800ms until 5 seconds after the first admission.
# Returns once they have ended.
hammer() {
  local i clients=()
  # shellcheck disable=SC2016
  for i in {1..8}; do
    bash -c 'until [[ -e $1.stop ]]; do
      dlock limit --wait forever api 5/800ms -- sh -c '\''echo >> "$1"'\'' - "$1" || echo failed >> "$1"
    done' - "$BATS_TEST_TMPDIR/admitted" 3>&- &
    clients+=("$!")
  done
  eventually test -s "$BATS_TEST_TMPDIR/admitted"
  never_within 5000 grep failed "$BATS_TEST_TMPDIR/admitted"
  touch "$BATS_TEST_TMPDIR/admitted.stop"
  wait "${clients[@]}"
  ! grep failed "$BATS_TEST_TMPDIR/admitted"
}

# Prints the shortest time in which there were six admissions, in microseconds.
shortest_of_six() {  # <file>
  sort -n "$1" | awk '{ at[NR] = $1 }
    NR > 5 { span = at[NR] - at[NR - 5]; if (NR == 6 || span < least) least = span }
    END { printf "%.0f\n", least }'
}
