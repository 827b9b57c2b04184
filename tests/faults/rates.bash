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

# Runs eight processes that use a limit of 5/800ms until 10 seconds after the first admission.
# Each writes the times of its admissions to the file `admitted`, in microseconds. Returns
# once they have ended.
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

# Whether at least 95 % of the 65 possible admissions of the first 10 seconds were used.
is_used() {  # <file>
  (($(in_10_seconds "$1") * 100 >= 65 * 95))
}

# Whether there was an admission later than 10 seconds after the first.
over_since() {  # <file>
  [[ -s $1 ]] && (($(sort -n "$1" | tail -n 1) - $(sort -n "$1" | head -n 1) > 10000000))
}

# Prints the number of admissions in the first 10 seconds. At 5/800ms it can be 65.
in_10_seconds() {  # <file>
  sort -n "$1" | awk 'NR == 1 { first = $1 } $1 < first + 10000000 { n++ } END { print n + 0 }'
}

# Prints the shortest time in which there were six admissions, in microseconds.
shortest_of_six() {  # <file>
  sort -n "$1" | awk '{ at[NR] = $1 }
    NR > 5 { span = at[NR] - at[NR - 5]; if (NR == 6 || span < least) least = span }
    END { printf "%.0f\n", least }'
}
