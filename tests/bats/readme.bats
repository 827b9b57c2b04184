#!/usr/bin/env bats
# The README's recipes work as they stand there, with commands of the test's own behind
# the names, and the test's own server.

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

teardown() {
  stop_redis
  kill_leftovers
}

# Makes a command that notes its name and arguments, and says what it did.
stub() {  # <path>
  cat > "$1" << 'END'
#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
echo "${0##*/} was here"
END
  chmod +x "$1"
  export CALLS=$calls
}

# Prints the code below a recipe's title, as it is to be pasted here.
recipe() {  # <title>
  awk -v title="**$1**" '
    /^## / { wanted = 0 }
    index($0, "**") == 1 { wanted = index($0, title) == 1 }
    /^```$/ { inside = 0 }
    wanted && inside
    /^```[a-z]/ { inside = 1 }' "$DLOCK_SOURCE/README.md" |
    sed "s|/usr/local/bin|$stubs|; s|redis://db.example.org|$server|; s|/var/lib/reports|$BATS_TEST_TMPDIR/reports|"
}

# The same of the job in a crontab, without its times.
cron_recipe() { recipe "$1" | grep -v '^PATH=' | cut -d' ' -f6-; }

# Runs so many of a script, and waits for them. What they say is in the file `said`.
at_once() {  # <number> <script>
  local i shells=()
  for ((i = 0; i < $1; i++)); do
    bash -c "$2" >> said 2>&1 3>&- &
    shells+=($!)
  done
  for i in "${shells[@]}"; do wait "$i"; done
}

@test "there are five recipes" {
  run grep -c '^\*\*[^*]*\*\*' "$DLOCK_SOURCE/README.md"

  assert_equal "$output" 5
}

@test "the first crontab finds dlock where install.sh puts it, which cron's own PATH does not" {
  stubs=/usr/local/bin

  run recipe 'Cron on one host'

  assert_output_contains 'PATH=/usr/local/bin:'
}

@test "cron on one host" {
  stub "$stubs/backup.sh"

  bash -c "$(cron_recipe 'Cron on one host')"

  assert_equal "$(cat "$calls")" 'backup.sh '
  dlock status backup --json | jq -e '.last_run.exit_code == 0' > /dev/null
}

@test "cron on ten hosts" {
  stub "$stubs/report.sh"

  at_once 10 "$(cron_recipe 'Cron on ten hosts')"

  assert_equal "$(cat "$calls")" 'report.sh '
  assert_equal "$(cat said)" 'report.sh was here'
}

@test "a deploy script that queues" {
  stub "$stubs/make"

  at_once 2 "$(recipe 'A deploy script that queues')"

  assert_equal "$(cat "$calls")" $'make deploy\nmake deploy'
}

@test "an API that allows five requests a second" {
  stub "$stubs/curl"
  seq 6 > ids
  local started
  started=$(now_ms)

  bash -c "$(recipe 'An API that allows five requests a second')"

  assert_equal "$(wc -l < "$calls")" 6
  (($(now_ms) - started >= 1000))
}

@test "a report that fifty web workers ask for" {
  stub make-report

  at_once 10 "$(recipe 'A report that fifty web workers ask for')"

  assert_equal "$(cat "$calls")" 'make-report --format html'
  assert_equal "$(sort said | uniq -c | tr -s ' ')" ' 10 make-report was here'
}
