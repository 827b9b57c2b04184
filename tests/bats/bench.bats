#!/usr/bin/env bats
# tests/bench/run compares figures with the bars in tests/bench/bars. The figures are made up
# here, so that each of them is where it is meant to be.

setup() {
  load support
  bench=$DLOCK_SOURCE/tests/bench
  figures=$BATS_TEST_TMPDIR/figures
  # For what is measured.
  export LC_ALL=C
}

# Writes figures that meet each bar exactly.
meet_all_bars() {
  printf '# some machine\npart\twhat\tdlock\tpeer\tratio\tlow\thigh\n' > "$figures"
  # part | what | column sign number [unit]
  awk -F ' *[|] *' -v OFS='\t' '
    /^[a-z]/ {
      split($3, rule, " ")
      value = rule[3] (rule[4] ? " " rule[4] : "")
      print $1, $2, rule[1] == "dlock" ? value : "5.00 ms", "5.00 ms",
        rule[1] == "ratio" ? value : "-", "-", "-"
    }' "$bench/bars" >> "$figures"
}

# Gives a figure other values.
change() {  # <what> <dlock> <ratio>
  awk -F '\t' -v OFS='\t' -v what="$1" -v dlock="$2" -v ratio="$3" '
    $2 == what { $3 = dlock; $5 = ratio; found = 1 }
    { print }
    END { exit !found }' "$figures" > "$figures.new"
  mv "$figures.new" "$figures"
}

check() { run "$bench/run" --check --from "$figures" "$@"; }

@test "figures at their bars pass" {
  meet_all_bars

  check

  assert_equal "$status" 0
}

@test "each figure that misses its bar is named, and the check fails" {
  meet_all_bars
  change 'run /bin/true; flock' '2.02 ms' 1.01
  change '8 workers of 20 sections; flock' '790 /s' 0.79
  change 'commands for each of 8 contenders' 10.1 -

  check

  assert_equal "$status" 1
  assert_equal "$(sed -n '/bars missed/,$p' <<< "$output")" "tests/bench/run: bars missed:
run: run /bin/true; flock: ratio 1.01, bar: ratio <= 1.0
crowd: 8 workers of 20 sections; flock: ratio 0.79, bar: ratio >= 0.8
redis: commands for each of 8 contenders: dlock 10.1, bar: dlock <= 10"
  assert_equal "$(grep -c ' !$' <<< "$output")" 3
}

@test "a bar without a figure is missed" {
  meet_all_bars
  sed -i '/^busy\t/d' "$figures"

  check

  assert_equal "$status" 1
  [[ $output == *'busy: busy, not waiting; flock -n: not measured, bar: ratio <= 1.0' ]]
}

@test "with --only the bars of other parts do not count" {
  meet_all_bars
  sed -i '/^busy\t/d' "$figures"

  check --only run --only etcd
  assert_equal "$status" 0
  check --only run --only busy
  assert_equal "$status" 1
}

@test "without --check a missed bar is marked, and is no failure" {
  meet_all_bars
  change 'run /bin/true; flock' '2.02 ms' 1.01

  run "$bench/run" --from "$figures"

  assert_equal "$status" 0
  [[ $(grep ' !$' <<< "$output") == 'run /bin/true; flock  '* ]]
}

@test "a file that has no figures is refused with its name" {
  echo 'no figures' > "$figures"

  check

  assert_equal "$status" 65
  [[ $output == "tests/bench/compare: $figures: "* ]]
}

@test "the bench measures, and writes what --from reads" {
  run "$bench/run" -n 2 --only busy --write "$figures"
  assert_equal "$status" 0
  measured=$(grep '^busy,' <<< "$output")

  run "$bench/run" --from "$figures"

  assert_equal "$status" 0
  assert_equal "$(grep '^busy,' <<< "$output")" "$measured"
}
