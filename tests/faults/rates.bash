# Helpers for the tests of rate limits. They go with support.bash.
# shellcheck disable=SC2034  # what is set here is for the tests

# Waits for a turn in the background, and returns once it has one. What it says goes to
# the file NAME.said, its pid to $waiter.
await_turn() {  # <name> <rate> [--] [<command>...]
  : > "$BATS_TEST_TMPDIR/$1.said"
  dlock limit -v --wait forever "$@" 2> "$BATS_TEST_TMPDIR/$1.said" 3>&- &
  waiter=$!
  eventually has_turn "$1"
}

# The same, for rates so quick that the turn may have come, and the waiter gone, before
# anybody looked.
await_quick_turn() {  # <name> <rate> [--] [<command>...]
  : > "$BATS_TEST_TMPDIR/$1.said"
  dlock limit -v --wait forever "$@" 2> "$BATS_TEST_TMPDIR/$1.said" 3>&- &
  waiter=$!
  eventually has_turn_or_was_served "$1"
}

has_turn_or_was_served() { has_turn "$1" || ! kill -0 "$waiter" 2> /dev/null; }

has_turn() { grep -q 'turn in' "$BATS_TEST_TMPDIR/$1.said"; }

# Has eight processes ask for 5 in 800 ms until 10 seconds after the first was admitted.
# Each notes in the file `admitted`, in microseconds, when it was. Returns once they have
# ended.
hammer() {
  local i clients=()
  rm -f "$BATS_TEST_TMPDIR/admitted" "$BATS_TEST_TMPDIR/admitted.stop"
  # shellcheck disable=SC2016
  for i in {1..8}; do
    bash -c 'until [[ -e $1.stop ]]; do
      dlock limit --wait forever api 5/800ms -- bash -c '\''echo "${EPOCHREALTIME/[.,]/}" >> "$1"'\'' - "$1" ||
        echo "failed: $?" >> "$1"
    done' - "$BATS_TEST_TMPDIR/admitted" 3>&- &
    clients+=("$!")
  done
  EVENTUALLY_MS=40000 eventually over_since "$BATS_TEST_TMPDIR/admitted"
  touch "$BATS_TEST_TMPDIR/admitted.stop"
  wait "${clients[@]}"
  ! grep failed "$BATS_TEST_TMPDIR/admitted"
}

# Whether at least 95 % of the 65 were used that can be in the first 10 seconds.
is_used() {  # <file>
  (($(in_10_seconds "$1") * 100 >= 65 * 95))
}

# Whether something was noted later than 10 seconds after the first.
over_since() {  # <file>
  [[ -s $1 ]] && (($(sort -n "$1" | tail -n 1) - $(sort -n "$1" | head -n 1) > 10000000))
}

# Prints how many of the moments lie in the first 10 seconds. At 5 in 800 ms it can be 65.
in_10_seconds() {  # <file>
  sort -n "$1" | awk 'NR == 1 { first = $1 } $1 < first + 10000000 { n++ } END { print n + 0 }'
}

# Prints the shortest span that six of the moments take, in microseconds.
shortest_of_six() {  # <file>
  sort -n "$1" | awk '{ at[NR] = $1 }
    NR > 5 { span = at[NR] - at[NR - 5]; if (NR == 6 || span < least) least = span }
    END { printf "%.0f\n", least }'
}
