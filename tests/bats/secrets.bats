#!/usr/bin/env bats
# Passwords never get out: not into messages, files, listings or the command.
# shellcheck disable=SC2016  # the commands' own variables
# shellcheck disable=SC2154  # hold and queue set holder and waiter

setup() {
  load support
  load ../faults/locks
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  secret=hunter2
}

teardown() { kill_leftovers; }

refute() { ! "$@"; }

# Runs dlock and takes its exit code into $status and all that it prints into $output.
run_any() {
  status=0
  timeout -s KILL 20 dlock "$@" > output 2>&1 < /dev/null || status=$?
  output=$(< output)
}

# Asserts that no file that dlock has written has the secret.
assert_no_file_tells() {
  if grep -rlF "$secret" store report* output 2> /dev/null; then return 1; fi >&2
}

@test "a password in a store's URL is not printed when the URL is refused" {
  for url in "redis://user:$secret@host:port" "redis://:$secret@host:6379/0/1" "rediss://user:$secret@host/x" \
    "redis+quorum://user:$secret@a,b" "redis+sentinel://user:$secret@a,b" "redis+sentinel://user:$secret" \
    "redis+sentinel://user:$secret@a,user:$secret@b/m" "redis+sentinel://user:a/$secret@b,c/m" \
    "rediss+sentinel://user:$secret@a,a/m" "redis+cluster://user:$secret@a,b/0" "redis+cluster://:$secret@a,,b" \
    "redis+cluster://user:$secret" "redis+cluster://a,user:$secret" "etcd://user:$secret@a,a" "etcds://:$secret@a" "etcd://a,user:$secret" \
    "nonsense://user:$secret@host" \
    "redis://user:$secret@" "redis://user:$secret@ho st" "redis://user:p@$secret@host" \
    "user:$secret@host" "//user:$secret@host" "redis://user:$secret@host/@/" \
    "redis://user:a/$secret@host" "redis://user:a?$secret@host" "redis://user:a#$secret@host" \
    "redis://user:%$secret@host" "redis://user:$secret" "redis://:$secret" "redis:user:$secret@host" \
    "redis+unix://user:$secret@/path" "redis+unix:/path?password=$secret" "redis://host?password=a@$secret"; do
    run_any --store "$url" run -v job -- true
    assert_status 78
    refute_output_contains "$secret"
  done
}

# Nobody listens on port 1.
unreachable=rediss://user:hunter2@127.0.0.1:1

@test "a password in a store's URL is not printed when the store cannot be reached" {
  for words in 'run -v --report report job true' 'status -v job' 'status --json job' list 'list --json'; do
    # shellcheck disable=SC2086
    run_any --store "$unreachable" $words
    assert_status 69
    assert_output_contains 127.0.0.1:1
    refute_output_contains "$secret"
    assert_no_file_tells
  done
  assert_equal "$(jq -r .store report)" rediss://user@127.0.0.1:1
}

@test "--tls-insecure warns at each use, even with --quiet, before anything else is said" {
  for words in 'run job true' 'status job' list; do
    for quiet in '' -q; do
      # shellcheck disable=SC2086
      run_any $quiet --tls-insecure --store "$unreachable" $words
      assert_status 69
      [[ $output == 'dlock: warning: --tls-insecure: '*$'\n'*'127.0.0.1:1'* ]]
    done
  done
}

@test "--tls-insecure is no reason for a warning where there is no TLS" {
  run_any --tls-insecure --store redis://127.0.0.1:1 list

  assert_status 69
  refute_output_contains warning
}

@test "a password in DLOCK_STORE is not printed when the URL is refused" {
  export DLOCK_STORE=redis://user:$secret@host:port

  for words in 'run -v job true' 'status -v job' 'status --json job' 'list' 'list --json'; do
    # shellcheck disable=SC2086
    run_any $words
    assert_status 78
    refute_output_contains "$secret"
  done
}

@test "a password in the configuration's URL is not printed when the URL is refused" {
  echo "store = \"redis://user:$secret@host:port\"" > dlock.toml
  unset DLOCK_STORE

  run_any --config dlock.toml run -v job -- true

  assert_status 78
  refute_output_contains "$secret"
}

@test "a password in a configuration file that is broken is not printed" {
  unset DLOCK_STORE

  for line in "store = redis://user:$secret@host" "store = \"redis://user:$secret@host" \
    "redis://user:$secret@host" "store = [\"redis://user:$secret@host\"]" "password = \"$secret\"" \
    "password = $secret" "user = \"$secret"; do
    echo "$line" > dlock.toml
    run_any --config dlock.toml run -v job -- true
    assert_status 78
    refute_output_contains "$secret"
  done
}

@test "a password given to an option that does not exist is not printed, and it says where it belongs" {
  for option in --password --sentinel-password; do
    for words in "$option=$secret" "$option $secret"; do
      # shellcheck disable=SC2086
      run_any run $words job -- true
      assert_status 64
      refute_output_contains "$secret"
      assert_output_contains "$option-file"
    done
  done
}

@test "a password in the configuration file is refused, and it says where it belongs" {
  for key in password sentinel-password; do
    echo "$key = \"$secret\"" > dlock.toml

    run_any --config dlock.toml run job -- true

    assert_status 78
    refute_output_contains "$secret"
    assert_output_contains "; use $key-file"
  done
}

@test "a host is still printed when the URL is refused, so that people know which" {
  run_any --store "redis://user:$secret@db.example.org:port" run job -- true

  assert_output_contains db.example.org
}

# What is told of one password is told of the other.
secret_variables=(DLOCK_PASSWORD DLOCK_SENTINEL_PASSWORD)

@test "a password in a variable does not reach the command" {
  for variable in "${secret_variables[@]}"; do
    local -x "$variable=$secret"
    run_any run -v job -- sh -c 'env; tr "\0" "\n" < /proc/self/environ'

    assert_status 0
    refute_output_contains "$secret"
    refute_output_contains "$variable"
  done
}

@test "a password in a variable does not reach an inner run's command" {
  for variable in "${secret_variables[@]}"; do
    local -x "$variable=$secret"
    run_any run job -- dlock run other -- env

    assert_status 0
    refute_output_contains "$secret"
  done
}

@test "a password in a variable does not reach the command of a limit, a cache or a hook" {
  export DLOCK_PASSWORD=$secret DLOCK_SENTINEL_PASSWORD=$secret

  for words in 'limit api 9/1h env' 'cache key env' 'run --on-success env job true'; do
    # shellcheck disable=SC2086
    run_any $words
    assert_status 0
    refute_output_contains "$secret"
  done
}

@test "a password in a variable does not reach a command that had to wait" {
  hold job
  DLOCK_PASSWORD=$secret DLOCK_SENTINEL_PASSWORD=$secret queue job sh -c 'env > seen'

  let_go

  assert_exits 0 "$waiter"
  refute grep -qF "$secret" seen
}

@test "a password in a variable is in nothing that dlock prints or writes" {
  for words in 'job true' 'job ./missing' '--timeout 50ms job sleep 60' '-E 9 --label text job true'; do
    # shellcheck disable=SC2086
    DLOCK_PASSWORD=$secret DLOCK_SENTINEL_PASSWORD=$secret run_any run -v --report report $words
    refute_output_contains "$secret"
    assert_no_file_tells
  done
}

@test "a password in a variable is in no status and no list" {
  export DLOCK_PASSWORD=$secret DLOCK_SENTINEL_PASSWORD=$secret
  hold job

  for words in 'status job' 'status --json job' list 'list --json' 'run -v job true'; do
    # shellcheck disable=SC2086
    run_any $words
    assert_output_contains job
    refute_output_contains "$secret"
  done
}

@test "a password file is named, and what it has is not" {
  echo "$secret" > password

  run_any run -v --password-file password --report report job -- sh -c 'env; tr "\0" "\n" < /proc/self/environ'

  assert_status 0
  assert_output_contains "$PWD/password"
  refute_output_contains "$secret"
  assert_no_file_tells
}

# Who has it can release the lock.
@test "the token of a run is passed to nobody" {
  dlock run -v --report report job -- sh -c 'env | grep ^DLOCK_; dlock status --json job' > output 2>&1

  refute grep -q DLOCK_TOKEN output
  refute grep -qE '[0-9A-Fa-f]{32}' output report
}
