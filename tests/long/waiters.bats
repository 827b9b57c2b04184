#!/usr/bin/env bats
# A thousand waiters for one lock all get their turn, in order, and each hand-off takes as
# long as with ten waiters:
#
#   DLOCK_BIN=build/release/dlock bats tests/long/waiters.bats

setup() {
  load ../bats/support
  load ../faults/redis
  load ../faults/crowd
  section=$BATS_TEST_TMPDIR/section
  cc -std=gnu11 -O2 -static -o "$section" "$DLOCK_SOURCE/tests/bench/section.c"
}

# Prints the median of the microseconds from the start of a command to the start of the next.
# The command itself always takes the same time.
median_gap() {  # <file of moments in nanoseconds>
  sort -n "$1" | awk 'NR > 1 { printf "%.0f\n", ($1 - last) / 1000 } { last = $1 }' | sort -n |
    awk '{ gap[NR] = $1 } END { print gap[int((NR + 1) / 2)] }'
}

# Whether the waiters with these numbers ran in this order.
served_in_order() {  # <number>...
  local number
  for number; do cat "$BATS_TEST_TMPDIR/moment.$number"; done | sort -c -n
}

# Serves crowds of 10, 100 and 1,000 waiters. Sets $gaps to the time of a hand-off in each.
serve_crowds() {
  local number
  gaps=()
  for number in 10 100 1000; do
    rm -f "$BATS_TEST_TMPDIR"/moment.*
    hold crowd
    gather "$number" "$BATS_TEST_TMPDIR/note"
    mapfile -t standing < <(line)
    ((number < 1000)) || echo "# KiB of memory for each of $number: $(memory_of_each)" >&3

    disperse

    assert_equal "${#standing[@]}" "$number"
    served_in_order "${standing[@]}"
    cat "$BATS_TEST_TMPDIR"/moment.* > "$BATS_TEST_TMPDIR/moments"
    assert_equal "$(wc -l < "$BATS_TEST_TMPDIR/moments")" "$number"
    gaps+=("$(median_gap "$BATS_TEST_TMPDIR/moments")")
    echo "# microseconds from one of $number to the next: ${gaps[-1]}" >&3
  done
}

# The command of each waiter writes its start time to a file named after its number.
make_note() {
  cat > "$BATS_TEST_TMPDIR/note" << END
#!/bin/sh
exec $section first "$BATS_TEST_TMPDIR/moment.\$1"
END
  chmod +x "$BATS_TEST_TMPDIR/note"
}

assert_flat() {
  local gap
  for gap in "${gaps[@]}"; do assert_between "$gap" 1 $((gaps[0] * 2)); done
}

@test "a thousand waiters for an embedded lock get their turn in order, as quickly as ten" {
  use_private_store
  make_note

  serve_crowds

  assert_flat
}

@test "a thousand waiters for a lock on a server get their turn in order, as quickly as ten" {
  use_redis_store
  make_note

  serve_crowds

  assert_flat
}
