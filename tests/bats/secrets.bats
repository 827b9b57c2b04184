#!/usr/bin/env bats
# Passwords do not leak into messages, files, lists or the command.
# shellcheck disable=SC2086  # words

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
  secret=hunter2
}

# Runs dlock. Sets $status to its exit code, and $output to all that it prints.
run_any() {
  status=0
  dlock "$@" > output 2>&1 < /dev/null || status=$?
  output=$(< output)
}

# Asserts that no file that dlock has written contains the secret.
assert_no_file_tells() {
  # It exits with 2 if there is no store.
  assert_equal "$(grep -rlF "$secret" store report* output 2> /dev/null)" ''
}

# No program listens on port 1.
unreachable=rediss://user:hunter2@127.0.0.1:1

@test "--tls-insecure prints a warning first, even with --quiet, if and only if the store uses TLS" {
  for words in 'run job true' 'status job' '-q list'; do
    run_any --tls-insecure --store "$unreachable" $words
    assert_status 69
    [[ $output == 'dlock: warning: --tls-insecure: '*$'\n'*'127.0.0.1:1'* ]]
  done
  DLOCK_TLS_INSECURE=true run_any --store redis://127.0.0.1:1 list
  assert_status 69
  refute_output_contains warning
}

@test "a password as an option or a key of the file is refused without it, and what is right is named" {
  for option in --password --sentinel-password; do
    for words in "$option=$secret" "$option $secret"; do
      run_any run $words job -- true
      assert_status 64
      refute_output_contains "$secret"
      assert_output_contains "$option-file"
    done
    echo "${option#--} = \"$secret\"" > dlock.toml
    run_any --config dlock.toml run job -- true
    assert_status 78
    refute_output_contains "$secret"
    assert_output_contains "; use ${option#--}-file"
  done
}

@test "a password in a variable does not reach the command of a run, an inner run, a limit, a cache or a hook" {
  export DLOCK_PASSWORD=$secret DLOCK_SENTINEL_PASSWORD=$secret

  # It is also not in the memory in which the kernel keeps the environment.
  run_any run -v job -- sh -c 'env; tr "\0" "\n" < /proc/self/environ'
  assert_status 0
  assert_output_contains DLOCK_NAME
  refute_output_contains "$secret"
  refute_output_contains PASSWORD

  for words in 'run job -- dlock run other -- env' 'limit api 9/1h env' 'cache key env' 'run --on-success env job true'; do
    run_any $words
    assert_status 0
    assert_output_contains PATH=
    refute_output_contains "$secret"
  done
}

@test "a password in a variable is not in anything that dlock prints or writes" {
  for words in 'job true' 'job ./missing' '--timeout 50ms job sleep 60' '-E 9 --label text job true'; do
    DLOCK_PASSWORD=$secret DLOCK_SENTINEL_PASSWORD=$secret run_any run -v --report report $words
    refute_output_contains "$secret"
    assert_no_file_tells
  done
}

# Prints what the kernel shows of the environments of the command's ancestors that are dlock's.
ancestors='p=$$; while p=$(sed -n "s/^PPid:.//p" "/proc/$p/status"); do
  case $(cat "/proc/$p/comm") in dlock* | lock-guardian) echo "one of dlock"; tr "\0" "\n" < "/proc/$p/environ" ;; *) break ;; esac; done'

# Runs words of dlock, of which CODE stands for a look at the ancestors, and asserts that they show no secret.
assert_ancestors_tell_nothing() {  # <store> <words>
  local words
  read -ra words <<< "$2"
  status=0
  DLOCK_STORE=$1 DLOCK_PASSWORD=$secret DLOCK_SENTINEL_PASSWORD=$secret DLOCK_TOKEN=$secret PGPASSWORD=$secret \
    dlock "${words[@]/CODE/$ancestors}" > output 2>&1 < /dev/null || status=$?
  output=$(< output)
  assert_status 0
  assert_output_contains 'one of dlock'
  assert_output_contains DLOCK_TOKEN=xxxxxxx
  refute_output_contains "$secret"
}

@test "a command and a hook cannot read a secret in the environment that the kernel shows of dlock and its guardian" {
  local port words
  port=$(free_ports 1)
  redis-server --port "$port" --bind 127.0.0.1 --requirepass "$secret" --save '' --dir "$PWD" > server.log 2>&1 3>&- &
  server_pid=$!
  disown "$server_pid"
  eventually accepts_connections "$port"
  for words in 'run --on-success CODE job sh -c CODE' 'run --on-start CODE job sleep 0.2' 'run job -- dlock run other -- sh -c CODE' \
    'run --stragglers kill job sh -c CODE' 'limit api 99/1h sh -c CODE' 'cache key sh -c CODE'; do
    # An inner run has no password, and is refused there.
    [[ $words == *dlock* ]] || assert_ancestors_tell_nothing "redis://:$secret@127.0.0.1:$port" "$words"
    assert_ancestors_tell_nothing "$DLOCK_STORE" "$words"
    assert_ancestors_tell_nothing none: "$words"
  done
  # What the environment shows has been overwritten, and not what is used.
  DLOCK_STORE=redis://:$secret@127.0.0.1:$port run dlock list
  assert_status 0
}

@test "a process that keeps a lease shows no secret in its environment" {
  DLOCK_PASSWORD=$secret DLOCK_TOKEN=$secret dlock acquire --for-pid $$ job > output 3>&-
  : > shown
  for process in /proc/[0-9]*; do
    [[ $process/exe -ef $DLOCK_BIN ]] || continue
    if grep -qzxF "DLOCK_TEST_ID=$DLOCK_TEST_ID" "$process/environ"; then tr '\0' '\n' < "$process/environ" >> shown; fi
  done
  output=$(< shown)
  assert_output_contains DLOCK_TOKEN=xxxxxxx
  refute_output_contains "$secret"
  dlock break --yes job
}

# Whoever knows the token can release the lock.
@test "the token of a run is not printed and not passed to the command" {
  dlock run -v --report report job -- sh -c 'env | grep ^DLOCK_; dlock status --json job' > output 2>&1

  refute grep -q DLOCK_TOKEN output
  refute grep -qE '[0-9A-Fa-f]{32}' output report
}

# Runs dlock, and appends what it prints to the file `output`, below $words.
run_quietly() {  # <dlock's arguments>...
  printf '\n== %s\n' "${words:-}" >> output
  dlock "$@" >> output 2>&1 < /dev/null || echo "exit code $?" >> output
}

# Asserts that the output, and what dlock has written, has no three letters of the secret.
assert_tells_nothing() {
  local i told parts=()
  for ((i = 0; i + 3 <= ${#secret}; ++i)); do parts+=(-e "${secret:i:3}"); done
  [[ $(< output) == *'exit code '* ]] || return
  # It exits with 2 if there is no report.
  told=$(grep -F -B 3 "${parts[@]}" output report* hook* 2> /dev/null) || true
  [[ -z $told ]] || { echo "$told" >&2; return 1; }
}

@test "a secret that is printed, in part or beside others, fails these tests" {
  secret=QZJXKVW
  printf 'exit code 1\nno ZJX\n' > output
  run assert_tells_nothing
  assert_status 1
  echo exit code 1 > output
  assert_tells_nothing
  echo XKV > report
  run assert_tells_nothing
  assert_status 1
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

# All verbs read the URL in the same way, and only `config` and `doctor` do more with one that is not valid.
@test "nothing of a password in a store's URL, valid or not, is printed or passed on by any verb" {
  secret=QZJXKVW
  export DLOCK_STORE_TIMEOUT=40ms DLOCK_TOKEN=000102030405060708090a0b0c0d0e0f
  local url words valid=0
  for url in "${marked_urls[@]}"; do
    : > output
    for words in 'run -v --report report --on-failure env>hook job true' 'config --json' doctor; do
      DLOCK_STORE=$url run_quietly $words
    done
    if [[ $(< output) != *"exit code 78"* ]]; then
      valid=$((valid + 1))
      for words in 'run --on-outage run job env' 'run --json job true' 'status -v job' 'list --json' config; do
        DLOCK_STORE=$url run_quietly $words
      done
      for words in 'history job' 'fence res 1' 'limit api 1/h true' 'cache key true'; do
        run_quietly --store "$url" $words
      done
    fi
    run_quietly --store "$url" run job
    assert_tells_nothing || { echo "$url" >&2; return 1; }
  done
  ((valid > 12 && valid < ${#marked_urls[@]} / 2))
}

@test "nothing of a password in a configuration file, valid or not, is printed" {
  secret=QZJXKVW
  unset DLOCK_STORE
  export DLOCK_STORE_TIMEOUT=40ms
  local url form
  : > output
  for form in "store = [\"redis://user:$secret@host\"]" "redis://user:$secret@host" "password = $secret" "user = \"$secret"; do
    echo "$form" > dlock.toml
    run_quietly --config dlock.toml run -v job -- true
  done
  for url in "${marked_urls[@]}"; do
    [[ $url != *[$'\n\e']* ]] || continue
    for form in "store = \"$url\"" "store = $url" "stor = \"$url"; do
      echo "$form" > dlock.toml
      run_quietly --config dlock.toml list
    done
  done
  assert_tells_nothing
  [[ $(< output) != *'exit code 0'* && $(< output) == *dlock.toml:1* ]]
}

@test "a URL in the place of a verb or of an argument is printed without its password" {
  secret=QZJXKVW
  local words
  for words in 'redis://u:QZJXKVW@h' 'redis://QZJXKVW@h run job true' 'help redis://QZJXKVW@h' \
    'list a redis://QZJXKVW@h' '--stor redis://QZJXKVW@h list' '--stor=redis://QZJXKVW@h list'; do
    run_any $words
    assert_status 64
    echo "exit code $status" >> output
    assert_tells_nothing
  done
}

@test "other users do not see a password that is an argument of dlock" {
  hold job --store "$DLOCK_STORE" --label redis://u:hunter2@host

  run cat /proc/"$holder"/cmdline

  refute_output_contains hunter2
}

server_says() {  # <text>
  rm -f port
  "$DLOCK_SOURCE/tests/faults/fake_server" port "-ERR $1\r\n" 3>&- &
  eventually test -s port
}

@test "a password that a server quotes in an error is not printed, nor the beginning of it" {
  secret=QZJXKVWQZJXKVW
  for quoted in "$secret" "${secret:0:7}"; do
    server_says "unknown command 'AUTH', with args beginning with: '$quoted'"
    for words in 'run job true' 'list --json' doctor; do
      run_any --store "redis://:$secret@127.0.0.1:$(< port)" $words
      ((status > 0))
      refute_output_contains "$quoted"
      assert_output_contains "with args beginning with: '***'"
    done
  done
}

@test "what is left out of a server's error does not tell that the password is a word of it" {
  server_says "password of 'open' is wrong, not 'openne'"
  for login in :password open:open u:open u:word u:pass u:passwordXY9; do
    run_any --store "redis://$login@127.0.0.1:$(< port)" run job true
    refute_output_contains '***'
    [[ $login == u:open ]] || assert_output_contains "password of 'open' is wrong"
  done
  for login in u:open u:openness; do
    run_any --store "redis://$login@127.0.0.1:$(< port)" run job true
    assert_output_contains 'a text that is not shown, as it quotes the password'
    refute_output_contains wrong
  done
}
