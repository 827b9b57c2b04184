#!/usr/bin/env bats
# Hints for users who type what they know from other tools, or whose words have another
# meaning than they intended. All other users get no hint.

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

# Asserts that this is the message of a usage error.
assert_hint() {  # <message> <dlock's arguments>...
  run timeout 60 dlock "${@:2}" < /dev/null
  assert_status 64
  assert_equal "$output" "dlock: $1"
}

# Asserts that the command runs and dlock prints nothing.
assert_runs() {  # <dlock's arguments>...
  run timeout 60 dlock "$@"
  assert_equal "$status $output" '0 ran'
}

# --- A first word that is no verb ---

@test "a first word that is no verb is answered with what to write" {
  assert_hint "unknown verb 'hello'; to run a command: dlock run hello -- COMMAND" hello
  assert_hint "unknown verb 'backup'; to run a command: dlock run backup -- COMMAND" backup -- ./backup.sh
  assert_hint "unknown verb '/var/lock/job.lock'; locks have names, not paths: dlock run job -- COMMAND" \
    /var/lock/job.lock ./job
  assert_hint "unknown verb './job'; locks have names, not paths: dlock run job -- COMMAND" ./job ./job
  assert_hint "unknown verb '9'; a script takes a lock by name: dlock acquire NAME --for-pid \$\$" 9
  assert_hint "'-V' is not an option: use --version" -V
  assert_hint "'-V' is not an option: use --version" run -V job -- true
  assert_hint "unknown verb 'version'; use dlock --version" version
}

# --- Habits from flock(1) ---

@test "an option of flock, or before the verb, is answered with what replaces it" {
  local option
  for option in -n --nonblock --nb -xn; do
    assert_hint "'$option' is not needed: dlock run NAME -- COMMAND does not wait unless --wait is given" \
      "$option" /tmp/x.lock cmd
  done
  assert_hint "'--nonblock' is not needed: dlock run NAME -- COMMAND does not wait unless --wait is given" \
    run --nonblock job -- true
  assert_hint "'-c': dlock uses no shell; use dlock run NAME -- sh -c 'LINE'" -c 'echo hi'
  assert_hint "'-c': dlock uses no shell; use dlock run NAME -- sh -c 'LINE'" run job -c 'echo hi'
  assert_hint "'-x' is not needed: dlock run NAME -- COMMAND is exclusive unless --shared is given" -x job cmd
  assert_hint "'-u': dlock run releases the lock when the command ends, dlock release does so by hand" -u 9
  assert_hint "'-w' is an option of run: dlock run -w ..." -w 5 job cmd
  assert_hint "'--wait' is an option of run: dlock run --wait ..." --wait=5 run job -- true
  assert_hint "'--prometheus' is an option of list: dlock list --prometheus ..." --prometheus list
  assert_hint "--slots: 'name' is not a number (-n means --slots; not waiting is the default)" run -n name -- true
  assert_hint "--slots: 'name' is not a number (-n means --slots; not waiting is the default)" run -n name true x
  assert_hint "--wait: 'job' is not a duration: expected a number and ms, s, m, h or d, such as 5m or 1h30m" \
    run -w job true
  assert_hint "'--no-wait' is not needed: dlock run NAME -- COMMAND does not wait unless --wait is given" \
    run --no-wait job -- true
}

@test "a path as the store is answered with the URL of that directory" {
  run dlock --store /tmp/locks list

  assert_status 78
  assert_output_contains 'did you mean local:/tmp/locks?'
}

@test "a command behind -- without a name in front is answered with what is missing" {
  local usage
  usage='(usage: dlock run [OPTIONS] NAME [--] COMMAND [ARG...])'
  assert_hint "missing lock name before '-- ./backup.sh' $usage" run -- ./backup.sh
  usage='(usage: dlock limit [OPTIONS] NAME [N/PERIOD [--] [COMMAND [ARG...]]])'
  assert_hint "missing limit name before '-- curl' $usage" limit -- curl
  assert_hint "missing limit name before '-- curl' $usage" limit -- curl https://host/
  usage='(usage: dlock cache [OPTIONS] KEY [--] [COMMAND [ARG...]])'
  assert_hint "missing key before '-- make-report' $usage" cache --ttl 5m -- make-report
}

@test "a name behind -- is a name" {
  assert_runs run -- job echo ran
  assert_runs run -- -job -- echo ran
  assert_runs limit -- api 5/1s echo ran
  assert_runs cache -- key echo ran
  run dlock cache --show -- key
  assert_status 0
}

# --- A duration in two words ---

@test "a duration or a size in two words is a usage error, and nothing runs" {
  local words
  for words in '--wait 5 min' '-w 5 min' '--wait=5 minutes' '-w5 m' '-vw 5 min'; do
    # shellcheck disable=SC2086
    run dlock run $words job -- touch ran
    assert_status 64
    assert_output_contains "'${words##* }' is taken as the lock name; a duration is one word: --wait 5m"
  done
  run dlock run --timeout 1 hour touch ran
  assert_equal "$status $output" "64 dlock: 'hour' is taken as the lock name; a duration is one word: --timeout 1h"
  run dlock cache --max-size 16 MiB key -- touch ran
  assert_equal "$status $output" "64 dlock: 'MiB' is taken as the lock name; a size is one word: --max-size 16MiB"
  [[ ! -e ran ]]
}

@test "a unit with -- behind it is the name of a lock, with a warning" {
  run dlock run --wait 5 min -- echo ran
  assert_status 0
  assert_equal "$output" "dlock: 'min' is taken as the lock name; a duration is one word: --wait 5m
ran"
}

@test "a duration in two words that leaves an unexpected argument has a hint, and there is no warning with --quiet" {
  assert_hint "unexpected argument 'job': a duration is one word: --wait 5m" acquire --wait 5 min job
  assert_runs run -q --wait 5 min -- echo ran
}

@test "there is no warning about a correct command line" {
  printf '#!/bin/sh\necho ran\n' > frob
  chmod +x frob

  assert_runs run name ./frob -- x
  assert_runs run --wait 5 name ./frob -- x
  assert_runs run min ./frob -- x
  assert_runs run -n 5 m ./frob
  assert_runs run -w 5s s ./frob
  assert_runs run --label 5 min ./frob
  assert_runs run --wait 5 -- min ./frob
}

# --- Variables ---

@test "a variable that dlock does not have has no effect, and one warning says so, but not with --quiet" {
  DLOCK_WAIT=5s run dlock run job -- echo ran
  assert_equal "$output" \
    "dlock: DLOCK_WAIT is not a variable of dlock; use --wait or the configuration file (only the options of the store have variables: man dlock)
ran"
  DLOCK_STROE=none: run dlock run job -- true
  assert_equal "$output" "dlock: DLOCK_STROE is not a variable of dlock: did you mean 'DLOCK_STORE'?"
  DLOCK_WAIT=5s DLOCK_CONFLICT_EXIT_CODE=3 assert_runs run -q job echo ran
}

@test "a store that is only the name of one is shown, and any other word is not, because it may be a password" {
  local word
  for word in redis valkey Postgres etcd sentinel pg; do
    run dlock run --store "$word" job -- true
    assert_status 78
    assert_output_contains "store '$word': not a store URL"
  done
  for word in hunter2 red 'redis hunter2'; do
    run dlock run --store "$word" job -- true
    assert_status 78
    assert_output_contains "store '...': "
  done
}

@test "quotes around the URL, as of a file that no shell has read, and a variable that nothing has replaced, are told apart from an unknown store" {
  local url
  for url in '"redis://:hunter2@h"' "'etcd://h'" ' local:/d' '"local:/d"' 'local:/d ' $'redis://h\r'; do
    DLOCK_STORE=$url run dlock run job -- true
    assert_status 78
    assert_equal "${output##*\': }" 'leave out the quotes, blanks or line ends around the URL'
    refute_output_contains hunter2
  done
  for url in '$DATABASE_URL' '${REDIS_URL}' '${REDIS_URL:-redis://:hunter2@h}' '{{ redis_url }}' '%REDIS_URL%'; do
    run dlock run --store "$url" job -- true
    assert_status 78
    assert_equal "$output" "dlock: --store: store '...': a variable whose value nothing has put in"
  done
}

@test "there is no warning about variables of other programs, or that dlock sets, even in nested runs" {
  : > config.toml
  DLOCK_PASSWORD=x assert_runs run --config config.toml --user me --password-file p --tls-insecure -q a \
    dlock run b dlock run -q c echo ran
  DLOCK_PORT=tcp://10.0.0.1:80 DLOCK_SERVICE_HOST=10.0.0.1 DLOCK_OUTCOME=ran DLOCK_REASON=x \
    DLOCK_EXIT_CODE=0 DLOCK_SIGNAL=TERM DLOCK_RAN_MS=1 DLOCK_HOLDER_HOST=x DLOCK_=x DLOCK=y \
    assert_runs run job echo ran
}

# --- help ---

@test "help prints what --help prints, and needs no store and no configuration" {
  assert_equal "$(dlock help)" "$(dlock --help)"
  assert_equal "$(dlock help run)" "$(dlock run --help)"
  assert_equal "$(dlock help help)" "$(dlock help --help)"
  DLOCK_STORE=nonsense: DLOCK_CONFIG=/nonexistent run dlock help run
  assert_status 0
}

@test "help options prints the options of every verb, to which the help of each verb refers" {
  run dlock help options
  assert_status 0
  assert_output_contains '--store-timeout D'
  refute_output_contains '--wait'

  run dlock run --help
  assert_output_contains '(dlock help options)'
}

@test "help about an unknown verb suggests the nearest" {
  assert_hint "unknown verb 'rnu': did you mean 'run'?" help rnu
  assert_hint "unknown verb 'option': did you mean 'options'?" help option
  assert_hint "unknown verb 'frobnicate' (see dlock --help)" help frobnicate
  assert_hint "unexpected argument 'job' (usage: dlock help [VERB|options])" help run job
}
