#!/usr/bin/env bats
# The pictures of the documentation match the program: each is drawn again.
# $DLOCK_LEASE_MOMENTS, tests/dlock_lease_moments in the build directory, prints the moments
# of a lease.

setup() {
  load support
  pictures=$DLOCK_SOURCE/docs/pictures
  cd "$BATS_TEST_TMPDIR" || return
}

@test "the picture of the peers matches its figures" {
  run "$DLOCK_SOURCE/tests/bench/run" --from "$pictures/peers.figures" --svg peers.svg
  assert_equal "$status" 0

  cmp peers.svg "$pictures/peers.svg"
}

@test "the tables of the peers, and what the README says of them, match the figures of the picture" {
  assert_equal "$(sed -n '/^## Compared with/,/^## How/p' "$DLOCK_SOURCE/docs/performance.md" | grep '^| [^|-]' |
    grep -v '^| |')" "$("$pictures/draw_peers" --table "$pictures/peers.figures")"

  assert_equal "$(awk -F '\t' '$2 == "run /bin/true; flock" { printf "%d %d", $3, $4 }' "$pictures/peers.figures")" '1 1'
  grep -qF 'about as long as with flock(1): one to two milliseconds.' "$DLOCK_SOURCE/README.md"
}

@test "only the pages of measurements have measured times, rates and sizes" {
  local page
  for page in README using migrating containers security promises glossary; do
    [[ -e $DLOCK_SOURCE/$page.md ]] && page=$page.md || page=docs/$page.md
    assert_equal "$page: $(awk '/^```/ { inside = !inside } !inside' "$DLOCK_SOURCE/$page" |
      grep -E '[0-9] ?(ms|milliseconds|µs|MiB|MB|kB|/s)([^a-z]|$)')" "$page: "
  done
}

@test "figures without anything to draw are refused" {
  sed '/^run\t/d; /^peers\t/d' "$pictures/peers.figures" > figures

  run "$pictures/draw_peers" figures

  assert_equal "$status" 65
  [[ $output == 'docs/pictures/draw_peers: figures: nothing to draw: '* ]]
}

@test "the picture of a lease matches the timing rules of this program" {
  "$DLOCK_LEASE_MOMENTS" > moments
  "$pictures/draw_lease" < moments > lease.svg

  cmp lease.svg "$pictures/lease.svg"
}

@test "SIGTERM, SIGKILL and the deadline come before the lease expires" {
  "$DLOCK_LEASE_MOMENTS" > moments

  run awk '
    $1 != "attempt" { at[$1] = $2 }
    END {
      if (at["renewed"] < at["term"] && at["term"] < at["kill"] &&
          at["kill"] < at["deadline"] && at["deadline"] < at["expires"]) print "in order"
    }' moments
  assert_equal "$output" 'in order'
}

@test "incomplete moments are refused" {
  "$DLOCK_LEASE_MOMENTS" | grep -v '^kill' > moments

  run "$pictures/draw_lease" < moments

  assert_equal "$status $output" '1 docs/pictures/draw_lease: missing moments: kill'
}

# Prints each colour of a picture that has a contrast of less than 4 (WCAG 2) with one of
# these backgrounds.
unreadable_colors() {  # <SVG file> <background>...
  /usr/bin/python3 - "$@" << 'END'
import re, sys

def luminance(color):
    parts = [int(color[place:place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue

def contrast(one, other):
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)

colors = set(re.findall("#[0-9a-f]{6}", open(sys.argv[1]).read())) - set(sys.argv[2:])
if not colors:
    print("no colours")
for color in colors:
    if any(contrast(color, background) < 4 for background in sys.argv[2:]):
        print(color)
END
}

@test "pictures are readable on light and dark pages" {
  for picture in peers lease; do
    assert_equal "$(unreadable_colors "$pictures/$picture.svg" '#ffffff' '#0d1117')" ''
  done
}

# Prints the description in a picture: what it shows, as text.
description_of() { sed -n '/<desc/,/<\/desc>/p' "$1"; }

@test "the live list, a wait and the history are recorded from the program" {
  mkdir recorded
  timeout 120 "$pictures/record" recorded

  for lock in deploy train backup report; do
    description_of recorded/live.svg | grep -qE "^$lock +(held|2/2 held|free) "
    description_of recorded/history.svg | grep -qE "^[0-9TZ:-]+ +$lock "
  done
  description_of recorded/history.svg | grep -q ' exit 3$'
  description_of recorded/wait.svg | grep -q '^dlock: deploy: held by .* position 2 of 2'
  assert_equal "$(ls recorded)" $'history.svg\nlive.svg\nwait.svg'
}

nothing_runs_in() { ! pgrep -f "$1" > /dev/null; }

@test "a recording leaves no files and no processes behind" {
  mkdir recorded
  export TMPDIR=$BATS_TEST_TMPDIR/tmp
  mkdir "$TMPDIR"
  timeout 120 "$pictures/record" recorded

  assert_equal "$(ls "$TMPDIR")" ''
  eventually nothing_runs_in "$TMPDIR"
}

@test "a recording of a program that fails exits with an error" {
  mkdir recorded
  printf '#!/bin/sh\nexit 70\n' > broken
  chmod +x broken

  PATIENCE=1 DLOCK_BIN=$PWD/broken run timeout 120 "$pictures/record" recorded

  assert_equal "$status" 1
  [[ $output == 'docs/pictures/record: timed out after 1 s: the server replies' ]]
  assert_equal "$(ls recorded)" ''
}

@test "recorded text is readable on its own background" {
  for picture in live wait history; do
    assert_equal "$(unreadable_colors "$pictures/$picture.svg" '#161b22')" ''
  done
}
