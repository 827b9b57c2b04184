#!/usr/bin/env bats
# Tables of the configuration file for one lock, [lock."NAME"], and the errors that every
# verb reports about an invalid file.

setup() {
  load support
  use_private_store
  own=$HOME/.config/dlock/config.toml
  mkdir -p "${own%/*}"
}

# Asserts that verbs refuse the configuration file because of an error in this line, and start no
# command. All read it with the same function, so few are enough for each of many errors.
every_verb=('run other -- echo started' list config 'status job')
assert_refused_in_line() {  # <line> <message> [<verb with its words>...]
  local words
  for words in "${@:3}" 'run other -- echo started'; do
    # shellcheck disable=SC2086
    run timeout 60 dlock $words
    assert_status 78
    assert_equal "$output" "dlock: $own:$1: $2"
  done
}

# --- What applies to a lock ---

@test "the table of a lock applies to that lock alone, whatever characters are in its name" {
  printf '[lock."%s"]\nlabel = "mine"\n' nightly-job 'db:main/two words.x' > "$own"
  for name in nightly-job 'db:main/two words.x'; do
    hold "$name"
    assert_equal "$(look "$name" '.holders[0].label')" mine
  done
  hold other
  assert_equal "$(look other '.holders[0].label')" ''
}

@test "the table of a lock applies to other verbs as well, as far as they know its keys, and not to a limit" {
  cat > "$own" << 'END'
[lock."job"]
slots = 2
ttl = "1h"
timeout = "1h"
limit = 3
[lock."outer"]
min-validity = "1h"
[lock."cache:report"]
max-size = 1
[lock."api"]
wait = "forever"
END
  run dlock acquire --json job
  assert_equal "$(json .free)" 1
  (($(json .expires_in_ms) > 3000000))
  run dlock renew --token "$(json .token)" --json job
  (($(json .expires_in_ms) > 3000000))

  # check without a name is of the outer lock.
  token=$(dlock acquire outer -t 30s --json)
  run env DLOCK_NAME=outer DLOCK_FENCE="$(jq .fence <<< "$token")" dlock check
  assert_status 76

  dlock cache -q report -- echo first
  run dlock cache -q report -- echo second
  assert_equal "$output" second
  dlock cache other -- echo first
  run dlock cache other -- echo second
  assert_equal "$output" first

  dlock limit api 1/1h
  run timeout 60 dlock limit api 1/1h
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

@test "an option in the table of a lock overrides or turns off one in that of the verb, and the command line one in both" {
  printf '%s\n' '[run]' 'shared = true' '[lock."sem"]' 'slots = 2' '[lock."read"]' 'shared = true' \
    '[lock."job"]' 'shared = false' > "$own"
  hold sem
  assert_equal "$(look sem '"\(.mode) \(.slots)"')" 'exclusive 2'
  hold read -n 2
  assert_equal "$(look read '"\(.mode) \(.slots)"')" 'exclusive 2'
  hold job
  assert_equal "$(look job .mode)" exclusive

  printf '[run]\nslots = 2\n[lock."other"]\nshared = true\n' > "$own"
  hold other
  assert_equal "$(look other .mode)" shared
}

# --- What is refused, by every verb ---

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
history|succeeded-within = 0|cannot be zero
history|limit = 0|'0' is not a whole number from 1 to 1000000
break|yes = 2|expected true or false, not '2'
cache|ttl = 0|cannot be zero
cache|max-size = "1GiB"|'1GiB' is more than 512MiB
limit|wait = "x"|'x' is not a duration: expected a number and ms, s, m, h or d, such as 5m or 1h30m
END
}

@test "an error in the file is reported by every verb: a mistyped key, a value of the wrong type, an unknown or invalid table" {
  printf '\n[lock."job"]\nwiat = "5m"\n' > "$own"
  assert_refused_in_line 3 "unknown key lock.\"job\".wiat: did you mean 'wait'?" "${every_verb[@]}"

  printf '[lock."job"]\nttl = 30\nwait = "soon"\n' > "$own"
  assert_refused_in_line 3 \
    "lock.\"job\".wait: 'soon' is not a duration: expected a number and ms, s, m, h or d, such as 5m or 1h30m" \
    "${every_verb[@]}"
  printf '[lock."job"]\nwait = ["5s"]\n' > "$own"
  assert_refused_in_line 2 'lock."job".wait: expected a string, a number or a boolean' "${every_verb[@]}"

  printf '[nightly]\nwait = 5\n' > "$own"
  assert_refused_in_line 1 'unknown table [nightly]: the table of a lock is [lock."nightly"]'
  printf '[lock.""]\nwait = 5\n' > "$own"
  assert_refused_in_line 1 '[lock.""]: a name cannot be empty'
  # The environment overrides it.
  printf 'namespace = ""\n' > "$own"
  DLOCK_NAMESPACE=good assert_refused_in_line 1 'namespace: a name cannot be empty'

  printf '[lock."a\\u001b[31m"]\nwait = 5\n' > "$own"
  run dlock list
  assert_message 78
  refute_output_contains $'\e'
}

@test "settings that need others, or of other verbs, are no error until a verb needs them" {
  printf '%s\n' '[lock."job"]' 'retry-failed = true' '[renew]' 'ttl = 30' '[cache]' 'forget = true' \
    '[release]' 'token-file = "/no/such/file"' > "$own"

  run dlock run other -- echo fine

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

