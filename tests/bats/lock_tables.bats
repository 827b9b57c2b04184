#!/usr/bin/env bats
# Tables of the configuration file for one lock, [lock."NAME"], and the errors that every
# verb reports about an invalid file.
# shellcheck disable=SC2154  # hold sets holder

setup() {
  load support
  load ../faults/locks
  use_private_store
  own=$HOME/.config/dlock/config.toml
  mkdir -p "${own%/*}"
}

teardown() { kill_leftovers; }

# Asserts that every verb refuses the configuration file because of an error in this line, and
# starts no command.
assert_refused_in_line() {  # <line> <message>
  local words
  for words in 'run other -- echo started' 'list' 'config' 'status job'; do
    # shellcheck disable=SC2086
    run timeout 5 dlock $words
    assert_status 78
    assert_equal "$output" "dlock: $own:$1: $2"
  done
}

# --- What applies to a lock ---

@test "the table of a lock applies only to runs of that lock" {
  printf '[lock."nightly-job"]\nlabel = "mine"\n' > "$own"

  hold nightly-job
  assert_equal "$(look nightly-job '.holders[0].label')" mine
  hold other
  assert_equal "$(look other '.holders[0].label')" ''
}

@test "the table of a lock applies to other verbs as well" {
  printf '[lock."job"]\nslots = 2\nttl = "3s"\n' > "$own"

  run dlock acquire --json job
  assert_equal "$(json .free)" 1
  (($(json .expires_in_ms) <= 3000))
  run dlock renew --token "$(json .token)" --json job
  (($(json .expires_in_ms) <= 3000))
}

@test "a key that the verb does not know is ignored if another verb that takes a lock knows it" {
  printf '[lock."job"]\ntimeout = "1h"\nmin-validity = "1s"\nlimit = 3\n' > "$own"

  dlock acquire job
  run dlock status job

  assert_status 0
}

@test "a lock name in a table can have any characters" {
  printf '[lock."db:main/two words.x"]\nlabel = "mine"\n' > "$own"

  hold 'db:main/two words.x'

  assert_equal "$(look 'db:main/two words.x' '.holders[0].label')" mine
}

@test "check without a name uses the table of the outer lock" {
  printf '[lock."job"]\nmin-validity = "1h"\n' > "$own"
  token=$(dlock acquire job -t 30s --json)

  run env DLOCK_NAME=job DLOCK_FENCE="$(jq .fence <<< "$token")" dlock check

  assert_status 76
}

@test "the table of a cache's lock applies to the cache" {
  printf '[lock."cache:report"]\nmax-size = 1\n' > "$own"

  dlock cache -q report -- echo first
  run dlock cache -q report -- echo second
  assert_equal "$output" second
  dlock cache other -- echo first
  run dlock cache other -- echo second
  assert_equal "$output" first
}

@test "the table of a lock does not apply to a limit of that name" {
  printf '[lock."api"]\nwait = "forever"\n' > "$own"
  dlock limit api 1/1h

  run timeout 5 dlock limit api 1/1h

  assert_status 75
}

# --- Precedence ---

@test "the table of a lock overrides that of the verb, and the command line overrides both" {
  printf '[run]\nconflict-exit-code = 3\n[lock."job"]\nconflict-exit-code = 4\n' > "$own"
  hold job
  hold other

  run dlock run other -- true
  assert_status 3
  run dlock run job -- true
  assert_status 4
  run dlock run -E 5 job -- true
  assert_status 5
}

@test "the environment overrides the table of a lock" {
  local right wrong
  right=$(dlock acquire job)
  wrong=000102030405060708090a0b0c0d0e0f
  printf '[lock."job"]\ntoken = "%s"\n' "$wrong" > "$own"

  run dlock renew job
  assert_status 76
  DLOCK_TOKEN=$right run dlock renew job
  assert_status 0
}

@test "an option in the table of a lock overrides a conflicting option in that of the verb" {
  printf '[run]\nshared = true\n[lock."sem"]\nslots = 2\n' > "$own"
  hold sem
  assert_equal "$(look sem '"\(.mode) \(.slots)"')" 'exclusive 2'

  printf '[run]\nslots = 2\n[lock."job"]\nshared = true\n' > "$own"
  hold job
  assert_equal "$(look job .mode)" shared
}

@test "an option on the command line overrides a conflicting option in the table of the lock" {
  printf '[lock."job"]\nshared = true\n' > "$own"

  hold job -n 2

  assert_equal "$(look job '"\(.mode) \(.slots)"')" 'exclusive 2'
}

@test "the table of a lock can turn off an option that the table of the verb turns on" {
  printf '[run]\nshared = true\n[lock."job"]\nshared = false\n' > "$own"

  hold job

  assert_equal "$(look job .mode)" exclusive
}

# --- What is refused, by every verb ---

@test "a mistyped key in the table of a lock names the one that was meant" {
  printf '\n[lock."job"]\nwiat = "5m"\n' > "$own"

  assert_refused_in_line 3 "unknown key lock.\"job\".wiat: did you mean 'wait'?"
}

@test "every verb reports an invalid value in the table of any lock" {
  printf '[lock."job"]\nttl = 30\nwait = "soon"\n' > "$own"

  assert_refused_in_line 3 \
    "lock.\"job\".wait: 'soon' is not a duration: expected a number and ms, s, m, h or d, such as 5m or 1h30m"
}

@test "every verb reports an invalid value in the table of any verb" {
  while IFS='|' read -r table line message; do
    printf '[%s]\n%s\n' "$table" "$line" > "$own"
    assert_refused_in_line 2 "$table.${line%% *}: $message"
  done << 'END'
run|timeout = 0|cannot be zero
run|ttl = "100ms"|must be at least 500ms
run|dedupe = "31d"|must be at most 30 days
run|report = ""|missing file name
acquire|slots = "two"|'two' is not a whole number from 1 to 100000
acquire|for-pid = 0|'0' is not a whole number from 1 to 2147483647
renew|token = "x"|invalid token: expected 32 hexadecimal digits
release|token = "x"|invalid token: expected 32 hexadecimal digits
check|min-validity = "x"|'x' is not a duration: expected a number and ms, s, m, h or d, such as 5m or 1h30m
check|fence = 0|'0' is not a fence: expected a whole number from 1 to 9223372036854775807
list|live = "maybe"|expected true or false, not 'maybe'
history|limit = 0|'0' is not a whole number from 1 to 1000000
break|yes = 2|expected true or false, not '2'
cache|ttl = 0|cannot be zero
cache|max-size = "1GiB"|'1GiB' is more than 512MiB
limit|wait = "x"|'x' is not a duration: expected a number and ms, s, m, h or d, such as 5m or 1h30m
END
}

@test "an invalid value at the top level is reported even if the environment overrides it" {
  printf 'namespace = ""\n' > "$own"

  DLOCK_NAMESPACE=good run dlock run job -- echo started

  assert_status 78
  assert_equal "$output" "dlock: $own:1: namespace: a name cannot be empty"
}

@test "every verb reports a value of the wrong type in the table of any lock" {
  printf '[lock."job"]\nwait = ["5s"]\n' > "$own"

  assert_refused_in_line 2 'lock."job".wait: expected a string, a number or a boolean'
}

@test "a setting in the file that needs another setting is not an error" {
  printf '[lock."job"]\nretry-failed = true\n[renew]\nttl = 30\n[cache]\nforget = true\n' > "$own"

  run dlock run other -- echo fine

  assert_equal "$output" fine
}

@test "a token file that the configuration names is read only by verbs that need it" {
  printf '[release]\ntoken-file = "/no/such/file"\n' > "$own"

  run dlock run job -- echo fine

  assert_equal "$output" fine
}

# --- Where a key belongs ---

@test "an error about a key in the wrong table says where the key belongs" {
  while IFS='|' read -r text message; do
    printf '%b\n' "$text" > "$own"
    assert_refused_in_line "$(grep -c . "$own")" "$message"
  done << 'END'
timeout = 5|'timeout' belongs in [run] or [lock."NAME"], not at the top level
live = true|'live' belongs in [list], not at the top level
stale = 5|'stale' belongs in [cache] or [lock."cache:KEY"], not at the top level
[run]\nnamespace = "x"|'namespace' belongs at the top level, before any table, not in [run]
[lock."job"]\nstore = "none:"|'store' belongs at the top level, before any table, not in [lock."job"]
[lock."job"]\nlive = true|'live' belongs in [list], not in [lock."job"]
[lock."job"]\nstale = 5|'stale' belongs in [cache] or [lock."cache:KEY"], not in [lock."job"]
[list]\nreclaim = true|'reclaim' belongs in [run] or [lock."NAME"], not in [list]
[lock]\nwait = 5|'wait' is not in a lock's table: the table of the lock NAME is [lock."NAME"]
[lock."job"]\npassword = "x"|a password cannot be set here; use password-file
END
}

@test "an error about an unknown table says how the table of a lock is written" {
  printf '[nightly]\nwait = 5\n' > "$own"

  assert_refused_in_line 1 'unknown table [nightly]: the table of a lock is [lock."nightly"]'
}

@test "a table for an invalid lock name is refused" {
  printf '[lock.""]\nwait = 5\n' > "$own"

  assert_refused_in_line 1 '[lock.""]: a name cannot be empty'
}

@test "the name of a lock's table cannot control the terminal" {
  printf '[lock."a\\u001b[31m"]\nwait = 5\n' > "$own"

  run dlock list

  assert_status 78
  assert_one_line
  refute_output_contains $'\e'
}
