#!/usr/bin/env bats
# `dlock config` prints every setting in effect, and where it comes from.
# shellcheck disable=SC2086  # words

setup() {
  load support
  use_private_store
  own=$HOME/.config/dlock/config.toml
  mkdir -p "${own%/*}"
}

# Prints the value and the origin of a setting as `dlock config` shows them, separated by one
# space.
shown() {  # <setting> [<argument of config>...]
  dlock config "${@:2}" | awk -v name="$1" '$1 == name { $1 = ""; print substr($0, 2) }'
}

@test "the defaults are those in --help" {
  local verb option usual
  for verb in run acquire renew cache; do
    while read -r option usual; do
      assert_equal "$(shown "$verb.$option")" "$usual default"
    done < <(dlock "$verb" --help | sed -nE 's/^ .*--([a-z-]+) .*\(([0-9][0-9a-zA-Z]*)\).*/\1 \2/p' |
      grep -vE '^(store|namespace|config|max-ttl)')
  done
}

@test "with a lock name, config includes the lock's table and only the verbs that it applies to" {
  printf '[run]\nwait = "10m"\nlabel = "all"\n[lock."job"]\nwait = "1h"\n' > "$own"

  assert_equal "$(shown run.wait job)" "1h $own:5: lock.\"job\".wait"
  assert_equal "$(shown acquire.wait job)" "1h $own:5: lock.\"job\".wait"
  assert_equal "$(shown run.label job)" "all $own:3: run.label"
  assert_equal "$(shown run.wait other)" "10m $own:2: run.wait"
  assert_equal "$(shown list.live job)" ''
  assert_equal "$(shown cache.ttl job)" ''
}

@test "with the lock name of a cache, config shows the settings of the cache" {
  printf '[lock."cache:report"]\nstale = "1h"\n' > "$own"

  assert_equal "$(shown cache.stale cache:report)" "1h $own:2: lock.\"cache:report\".stale"
}

@test "no secret is shown" {
  printf '[release]\ntoken = "9e4f0c3c4cbb1ddc7b8e31e0ca1e4ab1"\n' > "$own"
  for form in '' --json; do
    DLOCK_PASSWORD=hunter2 DLOCK_SENTINEL_PASSWORD=hunter4 DLOCK_TOKEN=000102030405060708090a0b0c0d0e0f \
      run dlock config $form --store redis://me:hunter3@host/2

    assert_status 0
    refute_output_contains hunter
    refute_output_contains 0001020304
    refute_output_contains 9e4f0c
    assert_output_contains redis://me@host/2
    assert_output_contains '***'
    assert_output_contains DLOCK_PASSWORD
    assert_output_contains DLOCK_SENTINEL_PASSWORD
  done
  run dlock config
  refute_output_contains 9e4f0c
}

@test "settings of any verb in the file that cannot be combined are refused, by the verb and by config" {
  local table
  while IFS='|' read -r table settings said command; do
    printf '[%s]\n%s\n' "$table" "${settings//;/$'\n'}" > "$own"
    for verb in config "$command"; do
      run dlock --config "$own" $verb
      assert_message 78 "$said"
    done
  done << 'END'
cache|forget = true;show = true|--forget and --show cannot be combined|cache key
limit|show = true;reset = true|--show and --reset cannot be combined|limit api
renew|token = "000102030405060708090a0b0c0d0e0f";token-file = "x"|--token and --token-file cannot be combined|renew job
END
}

@test "a setting that needs another one, which the command line may add, is only a warning of config" {
  local table setting needed warning
  for table in 'run|replace|--wait' 'run|supersede|--wait' 'lock."job"|retry-failed|--dedupe'; do
    IFS='|' read -r table setting needed <<< "$table"
    printf '[%s]\n%s = true\n' "$table" "$setting" > "$own"
    warning=$(dlock config job 2>&1 > "$BATS_TEST_TMPDIR/shown")
    assert_equal "$warning" "dlock: $own: [$table]: --$setting needs $needed"
    grep -q "run.$setting .*true" "$BATS_TEST_TMPDIR/shown"
    warning=$(dlock -q config 2>&1 > /dev/null)
    assert_equal "$warning" ''

    run dlock run job -- true
    assert_status 78
    run dlock run "$needed" 1s job -- true
    assert_status 0
  done
}

@test "config shows which of two settings that exclude each other is in force" {
  printf '[run]\nslots = 3\n[lock."job"]\ndedupe = "0s"\n' > "$own"
  run dlock config job
  [[ $output =~ run\.slots\ +3\  ]]

  printf '[run]\nslots = 3\n[lock."job"]\ndedupe = "1h"\n' > "$own"
  run dlock config job
  [[ $output =~ run\.slots\ +1\  ]]
}

@test "config shows the token or the token file, whichever is in force" {
  printf '[renew]\ntoken-file = "/run/token"\n' > "$own"
  [[ $(shown renew.token-file) == /run/token* ]]
  assert_equal "$(shown renew.token)" '- default'

  export DLOCK_TOKEN=000102030405060708090a0b0c0d0e0f
  assert_equal "$(shown renew.token-file)" '- default'
  [[ $(shown renew.token) == *DLOCK_TOKEN* ]]
}

@test "an invalid file is refused, and so is an invalid name" {
  printf '[lock."job"]\nwait = "soon"\n' > "$own"
  run dlock config
  assert_message 78

  : > "$own"
  run dlock config ''
  assert_status 64
}

@test "config neither contacts nor creates the store" {
  run dlock --store redis://no-such-host.invalid config
  assert_status 0
  dlock config > /dev/null

  [[ ! -e $BATS_TEST_TMPDIR/store ]]
}
