#!/usr/bin/env bats
# The recipes of the README work as they are printed. Stubs replace their commands, and a
# server of the test replaces theirs.

setup() {
  load support
  load ../faults/redis
  use_redis_store
  server=$DLOCK_STORE
  export DLOCK_STORE=local:$BATS_TEST_TMPDIR/store
  stubs=$BATS_TEST_TMPDIR/stubs
  calls=$BATS_TEST_TMPDIR/calls
  mkdir "$stubs"
  PATH=$stubs:$PATH
  cd "$BATS_TEST_TMPDIR" || return
}

# Creates a command that records its name and arguments, and prints that it ran.
stub() {  # <path>
  cat > "$1" << 'END'
#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
echo "${0##*/} was here"
END
  chmod +x "$1"
  export CALLS=$calls
}

# Prints a part of the README with the names of the stubs and the server of the test.
adapted() {
  sed "s|/usr/local/bin|$stubs|; s|redis://db.example.org|$server|; s|--jitter 30s|--jitter 30ms|; s|/var/lib/reports|$BATS_TEST_TMPDIR/reports|"
}

# Prints the code below a recipe's title, adapted.
recipe() {  # <title>
  awk -v title="**$1" '
    /^## / { wanted = 0 }
    index($0, "**") == 1 { wanted = index($0, title) == 1 }
    /^```$/ { inside = 0 }
    wanted && inside
    /^```[a-z]/ { inside = 1 }' "$DLOCK_SOURCE/README.md" | adapted
}

# Replaces what differs from run to run: names of hosts and users, times, numbers.
normalized() {
  sed -E 's/[a-z]+@[a-z0-9.-]+/USER@HOST/; s/ on [a-z0-9.-]+$/ on HOST/; s/[0-9-]{10}T[0-9:.]+Z/TIME/
    s/ (ago|for) .*/ \1/; s/\b[0-9.]+(ms|s|m|h|d)?\b/N/g; s/  +/ /g'
}

# Runs the commands of a console and asserts that they print what stands below them, but for
# what differs from run to run.
assert_console() {  # <text>
  bash -c "$(sed -n 's/^\$ //p' <<< "$1")" > said 2>&1 3>&- || true

  assert_equal "$(normalized < said)" "$(grep -v '^\$ ' <<< "$1" | normalized)"
}

# Holds the lock `backup` as the recipes do.
start_backup() {  # <program>
  printf '#!/bin/sh\nexec sleep 60\n' > "$1"
  chmod +x "$1"
  dlock run backup -- "$1" 3>&- &
  eventually dlock status backup
}

# Prints the command of a crontab recipe, without its schedule.
cron_recipe() { recipe "$1" | grep -v '^PATH=' | cut -d' ' -f6-; }

# Runs a script several times at once and waits for all of them. Their output goes to the
# file `said`.
at_once() {  # <number> <script>
  local i shells=()
  for ((i = 0; i < $1; i++)); do
    bash -c "$2" >> said 2>&1 3>&- &
    shells+=($!)
  done
  for i in "${shells[@]}"; do wait "$i"; done
}

@test "the first example shows a run that works, one that is refused, and one that waits" {
  local example first second third
  example=$(awk '/^```$/ { exit } inside; /^```console$/ { inside = 1 }' "$DLOCK_SOURCE/README.md")
  first=$(sed -n 1,2p <<< "$example") second=$(sed -n 3,4p <<< "$example") third=$(sed -n '5,$p' <<< "$example")
  # It runs until it may finish: at once, if no other run is to meet it.
  mkfifo finish
  printf '#!/bin/sh\n[ -e quick ] || read -r _ < finish\necho "backup of /srv: done"\n' > backup.sh
  chmod +x backup.sh

  touch quick
  assert_console "$first"
  rm quick

  dlock run backup -- ./backup.sh 3>&- &
  eventually dlock status backup
  assert_console "$second"
  run bash -c "$(sed -n 's/^\$ //p' <<< "$second")"
  assert_status 75

  bash -c "$(sed -n 's/^\$ //p' <<< "$third")" > waited 2> /dev/null 3>&- &
  eventually is_waited_for backup
  touch quick
  echo > finish
  assert_exits 0 $!
  assert_equal "$(cat waited)" "$(grep -v '^\$ ' <<< "$third")"
}

is_waited_for() { [[ $(dlock status --json "$1" | jq '.waiters | length') == 1 ]]; }

@test "the recipe for cron on one host runs the job, with a PATH that has the directory of install.sh" {
  # The other seven have tests too.
  run bash -c "sed -n '/^## Recipes/,/^## W/p' '$DLOCK_SOURCE/README.md' | grep -c '^\*\*'"
  assert_equal "$output" 8
  stubs=/usr/local/bin run recipe 'Cron on one host'
  assert_output_contains 'PATH=/usr/local/bin:'
  stub "$stubs/backup.sh"

  bash -c "$(cron_recipe 'Cron on one host')"

  assert_equal "$(cat "$calls")" 'backup.sh '
  dlock status backup --json | jq -e '.last_run.exit_code == 0' > /dev/null
}

@test "the recipe for cron on ten hosts runs the job once, and again if the first host fails" {
  stub "$stubs/report.sh"
  at_once 10 "$(cron_recipe 'Cron on ten hosts')"
  assert_equal "$(cat "$calls")" 'report.sh '
  assert_equal "$(cat said)" 'report.sh was here'

  rm "$calls"
  redis FLUSHALL > /dev/null
  printf '#!/bin/sh\necho try >> "%s"\n[ "$(wc -l < "%s")" -gt 1 ]\n' "$calls" "$calls" > "$stubs/report.sh"
  # The first host fails, and says so.
  at_once 10 "$(cron_recipe 'Cron on ten hosts')" || true
  assert_equal "$(cat "$calls")" $'try\ntry'
}

@test "the recipe for a deploy queues its runs" {
  stub "$stubs/make"

  at_once 2 "$(recipe 'A deploy that waits for its turn')"

  assert_equal "$(cat "$calls")" $'make deploy\nmake deploy'
}

@test "the recipe for an API sends at most five requests a second" {
  stub "$stubs/curl"
  seq 6 > ids
  local started
  started=$(now_ms)

  bash -c "$(recipe 'A rate limit')"

  assert_equal "$(wc -l < "$calls")" 6
  (($(now_ms) - started >= 1000))
}

@test "the recipe for a cached report makes it once for all callers" {
  stub make-report

  at_once 10 "$(recipe 'A cache')"

  assert_equal "$(cat "$calls")" 'make-report --format html'
  assert_equal "$(sort said | uniq -c | tr -s ' ')" ' 10 make-report was here'
}

@test "the recipe for three jobs at a time gives each its slot" {
  assert_console "$(recipe 'Three jobs at a time')"
}

@test "the recipe for several steps runs them under one lock, and releases it" {
  stub "$stubs/make"

  bash -c "$(recipe 'Several steps of a script')"

  assert_equal "$(cat "$calls")" $'make package\nmake upload'
  eventually is_free publish
}

@test "the recipe for who has a lock shows it, and when it last worked" {
  dlock run backup -- true
  start_backup "$stubs/backup.sh"

  assert_console "$(recipe 'Who has it')"
}

@test "the README names only systems on which its first command passed" {
  local named system
  # As tests/distributions names them: tried on Debian 12, Debian 13 and Ubuntu 24.04.
  named=$(tr '\n' ' ' < "$DLOCK_SOURCE/README.md" | grep -o 'tried on [^(]*' | grep -oE '(Debian|Ubuntu) [0-9.]+' |
    tr 'A-Z ' 'a-z-')
  [[ -n $named ]]
  for system in $named; do
    grep -q "^| $system | passed |" "$DLOCK_SOURCE/tests/distributions.md" || { echo "not tried on $system" >&2; return 1; }
  done
}
