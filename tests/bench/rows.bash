# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/bench/run reads all these files
# Turns samples into the figures of a bench, in the file $figures: one row for each quantity,
# with tabs between its columns (figures.py names them).

# Adds a row of values that are not compared round by round.
add_row() {  # <what> <dlock's> [<the peer's>]
  printf '%s\t' "$part" "$1" "$2" "${3:--}" - - >> "$figures"
  echo - >> "$figures"
}

# Reads lines of two numbers, dlock's and the peer's, and adds a row for them: the medians,
# the ratio of the medians, and the quartiles of the ratios of all lines.
add_ratio() {  # <what> <unit> <divisor>
  awk -v part="$part" -v what="$1" -v unit="$2" -v divisor="$3" '
    function sort(a, n,   i, j, v) {
      for (i = 2; i <= n; i++) {
        v = a[i]
        for (j = i - 1; j >= 1 && a[j] > v; j--) a[j + 1] = a[j]
        a[j + 1] = v
      }
    }
    function at(a, n, part,   place, low) {
      place = 1 + (n - 1) * part
      low = int(place)
      return low == n ? a[n] : a[low] + (place - low) * (a[low + 1] - a[low])
    }
    function shown(value) { return sprintf(value / divisor < 100 ? "%.2f%s" : "%.0f%s", value / divisor, unit) }
    NF == 2 && $2 > 0 { n++; mine[n] = $1; theirs[n] = $2; ratios[n] = $1 / $2 }
    END {
      if (n == 0) exit  # not measured; --check says so if there is a bar
      sort(mine, n); sort(theirs, n); sort(ratios, n)
      printf "%s\t%s\t%s\t%s\t%.2f\t%.2f\t%.2f\n", part, what, shown(at(mine, n, 0.5)),
        shown(at(theirs, n, 0.5)), at(mine, n, 0.5) / at(theirs, n, 0.5),
        at(ratios, n, 0.25), at(ratios, n, 0.75)
    }' >> "$figures"
}

# Prints two columns of the samples, by number.
columns() { awk -v a="$1" -v b="$2" '{ print $a, $b }' "$work/samples"; }
