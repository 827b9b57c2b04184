#!/usr/bin/env bats
# Passwords do not leak into messages, files, lists or the command.
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

# Runs dlock. Sets $status to its exit code, and $output to all that it prints.
run_any() {
  status=0
  timeout -s KILL 20 dlock "$@" > output 2>&1 < /dev/null || status=$?
  output=$(< output)
}

# Asserts that no file that dlock has written contains the secret.
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

# No program listens on port 1.
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

@test "--tls-insecure always prints a warning first, even with --quiet" {
  for words in 'run job true' 'status job' list; do
    for quiet in '' -q; do
      # shellcheck disable=SC2086
      run_any $quiet --tls-insecure --store "$unreachable" $words
      assert_status 69
      [[ $output == 'dlock: warning: --tls-insecure: '*$'\n'*'127.0.0.1:1'* ]]
    done
  done
}

@test "--tls-insecure prints no warning if the store does not use TLS" {
  DLOCK_TLS_INSECURE=true run_any --store redis://127.0.0.1:1 list

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

@test "a password in an invalid configuration file is not printed" {
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

@test "a password given to a nonexistent option is not printed, and the right option is named" {
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

@test "a password in the configuration file is refused, and the right key is named" {
  for key in password sentinel-password; do
    echo "$key = \"$secret\"" > dlock.toml

    run_any --config dlock.toml run job -- true

    assert_status 78
    refute_output_contains "$secret"
    assert_output_contains "; use $key-file"
  done
}

@test "the host is printed when the URL is refused" {
  run_any --store "redis://user:$secret@db.example.org:port" run job -- true

  assert_output_contains "'redis://...@db.example.org...'"
}

# What holds for one password holds for the other.
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

@test "a password in a variable is not in anything that dlock prints or writes" {
  for words in 'job true' 'job ./missing' '--timeout 50ms job sleep 60' '-E 9 --label text job true'; do
    # shellcheck disable=SC2086
    DLOCK_PASSWORD=$secret DLOCK_SENTINEL_PASSWORD=$secret run_any run -v --report report $words
    refute_output_contains "$secret"
    assert_no_file_tells
  done
}

@test "a password in a variable is not shown by status or list" {
  export DLOCK_PASSWORD=$secret DLOCK_SENTINEL_PASSWORD=$secret
  hold job

  for words in 'status job' 'status --json job' list 'list --json' 'run -v job true'; do
    # shellcheck disable=SC2086
    run_any $words
    assert_output_contains job
    refute_output_contains "$secret"
  done
}

@test "the name of a password file is printed, and its content is not" {
  echo "$secret" > password

  run_any run -v --password-file password --report report job -- sh -c 'env; tr "\0" "\n" < /proc/self/environ'

  assert_status 0
  assert_output_contains "$PWD/password"
  refute_output_contains "$secret"
  assert_no_file_tells
}

# Whoever knows the token can release the lock.
@test "the token of a run is not printed and not passed to the command" {
  dlock run -v --report report job -- sh -c 'env | grep ^DLOCK_; dlock status --json job' > output 2>&1

  refute grep -q DLOCK_TOKEN output
  refute grep -qE '[0-9A-Fa-f]{32}' output report
}

# Asserts that the output, and what dlock has written, has no three letters of the secret. One grep
# for all of them: this is called a thousand times.
assert_tells_nothing() {
  local i parts=()
  for ((i = 0; i + 3 <= ${#secret}; ++i)); do
    refute_output_contains "${secret:i:3}" || return
    parts+=(-e "${secret:i:3}")
  done
  if grep -rlF "${parts[@]}" report* hook* 2> /dev/null; then return 1; fi >&2
}

# Where a secret can stand in what should be a store's URL.
# shellcheck disable=SC2054  # the commas are part of the URLs
marked_urls=(redis://QZJXKVW@127.0.0.1:1 redis://:QZJXKVW@127.0.0.1:1 redis://u:QZJXKVW@127.0.0.1:1
  valkey://QZJXKVW@127.0.0.1:1 REDIS://QZJXKVW@127.0.0.1:1 etcd://u:QZJXKVW@127.0.0.1:1 etcd://QZJXKVW@127.0.0.1:1
  etcds://u:QZJXKVW@127.0.0.1:1 rediss://QZJXKVW@127.0.0.1:1 redis+sentinel://QZJXKVW@127.0.0.1:1/m
  redis+cluster://QZJXKVW@127.0.0.1:1 redis+quorum://QZJXKVW@127.0.0.1:1,127.0.0.2:1,127.0.0.3:1
  redis://QZJXKVW@h:port redis://user:QZJ@XKVW@h:x 'redis://:p/a?s#QZJXKVW@h' redis://:QZJXKVW
  redis://u:QZJXKVW redis://u:%QZJXKVW@h redis://QZJXKVW%zz@h 'redis://h?password=QZJXKVW' 'redis://h/0?auth=QZJXKVW'
  'redis://h/0?password=a@QZJXKVW' 'redis://h/0?QZJXKVW' 'redis://h#QZJXKVW' redis://u:QZJXKVW@a,u:QZJXKVW@b
  redis+quorum://a:QZJXKVW@h,b:QZJXKVW@i,c:QZJXKVW@j redis+quorum://h,i:QZJXKVW,j redis+sentinel://h,u:QZJXKVW@i/m
  etcd://h,u:QZJXKVW@i 'etcd://u:QZJXKVW@h?x' etcd://u:QZJXKVW@h/x etcd://:QZJXKVW@h etcd://u:QZJXKVW
  postgres://u:QZJXKVW@h/db 'postgresql://h/db?password=QZJXKVW' postgresql+psycopg2://u:QZJXKVW@h
  mysql://u:QZJXKVW@h mongodb+srv://u:QZJXKVW@h https://u:QZJXKVW@h 'http://h:2379?token=QZJXKVW' tcp://:QZJXKVW@h
  tcp://u:QZJXKVW unix://:QZJXKVW@/x.sock 'unix:///x.sock?password=QZJXKVW' unix://QZJXKVW@h/x file://u:QZJXKVW@h/x
  'redis+unix:/x.sock?password=QZJXKVW' redis+unix://u:QZJXKVW@/x.sock local:u:QZJXKVW@h local:QZJXKVW@h
  none:QZJXKVW@h u:QZJXKVW@h QZJXKVW@h QZJXKVW@h:1 u:QZJXKVW@h:1 //u:QZJXKVW@h 'h:6380,password=QZJXKVW,ssl=True'
  'h,password=QZJXKVW' 'redis://h:6380,password=QZJXKVW,ssl=True' 'redis://u@h:QZJXKVW' 'password=QZJXKVW' QZJXKVW
  $'redis://u:QZJ\nXKVW@h' $'redis://u:QZJXKVW@h\e' 'redis://u:QZJ XKVW@h h')

@test "nothing of a password in a store's URL, valid or not, is printed or passed on by any verb" {
  secret=QZJXKVW
  export DLOCK_STORE_TIMEOUT=40ms DLOCK_TOKEN=000102030405060708090a0b0c0d0e0f
  local url words
  for url in "${marked_urls[@]}"; do
    for words in 'run -v --report report --on-failure env>hook job true' 'run --on-outage run job env' \
      'run --json job true' 'status -v job' 'list --json' 'config' 'config --json' doctor; do
      # shellcheck disable=SC2086
      DLOCK_STORE=$url run_any $words
      assert_tells_nothing || { echo "$url $words" >&2; return 1; }
    done
    for words in 'history job' 'fence res 1' 'limit api 1/h true' 'cache key true' 'run job'; do
      # shellcheck disable=SC2086
      run_any --store "$url" $words
      assert_tells_nothing || { echo "$url $words" >&2; return 1; }
    done
  done
}

@test "nothing of a password in a configuration file that names such a store is printed" {
  secret=QZJXKVW
  unset DLOCK_STORE
  export DLOCK_STORE_TIMEOUT=40ms
  local url form
  for url in "${marked_urls[@]}"; do
    [[ $url != *[$'\n\e']* ]] || continue
    for form in "store = \"$url\"" "store = $url" "stor = \"$url"; do
      echo "$form" > dlock.toml
      run_any --config dlock.toml run -v job -- true
      assert_tells_nothing || { echo "$form" >&2; return 1; }
    done
  done
}

@test "a URL in the place of a verb or of an argument is printed without its password" {
  secret=QZJXKVW
  local words
  for words in 'redis://u:QZJXKVW@h' 'redis://QZJXKVW@h run job true' 'help redis://QZJXKVW@h' \
    'list a redis://QZJXKVW@h' '--stor redis://QZJXKVW@h list' '--stor=redis://QZJXKVW@h list'; do
    # shellcheck disable=SC2086
    run_any $words
    assert_status 64
    assert_tells_nothing
  done
}

@test "other users do not see a password that is an argument of dlock" {
  hold job --store "$DLOCK_STORE" --label redis://u:hunter2@host

  run cat /proc/"$holder"/cmdline

  refute_output_contains hunter2
}
