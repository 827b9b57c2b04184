#!/usr/bin/env bats
# tests/bench/run compares figures with the bars in tests/bench/bars. These tests invent the
# figures, so each is exactly where the test needs it.

setup() {
  load support
  bench=$DLOCK_SOURCE/tests/bench
  figures=$BATS_TEST_TMPDIR/figures
  # The measured programs inherit the locale; flock(1) is slower if it is not C.
  export LC_ALL=C
}

# Writes figures that are exactly at their bars.
meet_all_bars() {
  printf '# some machine\npart\twhat\tdlock\tpeer\tratio\tlow\thigh\n' > "$figures"
  # A bar is: part | what | column sign number [unit]
  awk -F ' *[|] *' -v OFS='\t' '
    /^[a-z]/ {
      split($3, rule, " ")
      value = rule[3] (rule[4] ? " " rule[4] : "")
      print $1, $2, rule[1] == "dlock" ? value : "5.00 ms", "5.00 ms",
        rule[1] == "ratio" ? value : "-", "-", "-"
    }' "$bench/bars" >> "$figures"
}

# Changes the values of a figure.
change() {  # <what> <dlock> <ratio>
  awk -F '\t' -v OFS='\t' -v what="$1" -v dlock="$2" -v ratio="$3" '
    $2 == what { $3 = dlock; $5 = ratio; found = 1 }
    { print }
    END { exit !found }' "$figures" > "$figures.new"
  mv "$figures.new" "$figures"
}

check() { run "$bench/run" --check --from "$figures" "$@"; }

@test "the check passes if all figures are exactly at their bars, and names each that misses its bar or is missing" {
  meet_all_bars
  check
  assert_equal "$status" 0

  change 'run /bin/true; flock' '2.02 ms' 1.01
  change '8 workers of 20 sections; flock' '790 /s' 0.79
  change 'commands for each of 8 contenders' 10.1 -
  sed -i '/^busy\t/d' "$figures"

  check
  assert_equal "$status" 1
  assert_equal "$(sed -n '/bars missed/,$p' <<< "$output" | grep -v '^busy: ' | sort)" \
    "crowd: 8 workers of 20 sections; flock: ratio 0.79, bar: ratio >= 0.8
redis: commands for each of 8 contenders: dlock 10.1, bar: dlock <= 10
run: run /bin/true; flock: ratio 1.01, bar: ratio <= 1.0
tests/bench/run: bars missed:"
  assert_equal "$(grep -c ' !$' <<< "$output")" 3
  [[ $output == *'busy: busy, not waiting; flock -n: not measured, bar: ratio <= 1.0'* ]]

  # --only ignores the bars of other parts.
  check --only etcd
  assert_equal "$status" 0
  check --only etcd --only busy
  assert_equal "$status" 1
}

@test "without --check a missed bar is marked, but the run succeeds" {
  meet_all_bars
  change 'run /bin/true; flock' '2.02 ms' 1.01

  run "$bench/run" --from "$figures"

  assert_equal "$status" 0
  [[ $(grep ' !$' <<< "$output") == 'run /bin/true; flock  '* ]]
}

@test "the message about a file without figures names it" {
  echo 'no figures' > "$figures"

  check

  assert_equal "$status" 65
  [[ $output == "tests/bench/compare: $figures: "* ]]
}

@test "the figures that --write writes are those that --from reads" {
  run "$bench/run" -n 2 --only busy --write "$figures"
  assert_equal "$status" 0
  measured=$(grep '^busy,' <<< "$output")

  run "$bench/run" --from "$figures"

  assert_equal "$status" 0
  assert_equal "$(grep '^busy,' <<< "$output")" "$measured"
}
