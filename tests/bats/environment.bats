#!/usr/bin/env bats
# The environment of the command: what a run adds, and that the rest is unchanged.
# shellcheck disable=SC2086  # words

setup() {
  load support
  use_private_store
  cd "$BATS_TEST_TMPDIR" || return
}

# Sorts variables. Omits the shell's own `_`, which names the command that it runs.
variables() {
  LC_ALL=C sort -z | grep -zv -e '^_=' "$@"
}

# Makes a directory that other users can enter, unlike the test's own, with dlock in it.
# Sets $open_place.
use_open_place() {
  open_place=$(mktemp -d "/tmp/dlock-tests.XXXXXX")
  cp "$DLOCK_BIN" "$open_place/dlock"
  mkdir "$open_place/home"
  chmod 755 "$open_place"
  ((EUID != 0)) || chown "$stranger" "$open_place/home"
  PATH=$open_place:$PATH
  cd "$open_place" || return
}

# Runs a command as a user without a name and without other processes. If the tests do not
# run as root, the current user will do.
stranger=54321
as_plain_user() {
  if ((EUID == 0)); then
    setpriv --reuid "$stranger" --regid "$stranger" --clear-groups "$@"
  else
    "$@"
  fi
}

# Makes an executable that prints its directory, in a new directory.
make_tool() {  # <directory> [<first line>]
  mkdir -p "$1"
  printf '%s\necho "tool of %s: $*"\n' "${2:-#!/bin/sh}" "$1" > "$1/tool"
  chmod +x "$1/tool"
}

# Asserts that dlock finds a command where env(1), by execvp(3), finds it.
assert_found_as_by_env() {  # <PATH> <command>
  local wanted found
  wanted=$(PATH=$1 "$env" "$2" x 2>&1) || true
  [[ $wanted == "${3:-tool of }"* ]] || { echo "env: $wanted" >&2; return 1; }
  found=$(PATH=$1 "$dlock" run job -- "$2" x 2>&1) || true
  assert_equal "$found" "$wanted"
}

use_absolute_programs() {
  env=$(type -P env)
  dlock=$(type -P dlock)
}

@test "the command gets the name, the fence, the store and the namespace of its lock, and what is held" {
  run dlock run nightly-job -- sh -c 'echo "$DLOCK_NAME $DLOCK_STORE $DLOCK_NAMESPACE"; echo "$DLOCK_HELD"
    dlock status --json nightly-job > status; echo "nightly-job=$DLOCK_FENCE"; echo "$DLOCK_FENCE" > fence'

  assert_equal "${lines[0]}" "nightly-job local:$BATS_TEST_TMPDIR/store dlock"
  assert_equal "${lines[1]}" "${lines[2]}"
  assert_equal "$(jq '.holders[0].fence' status)" "$(< fence)"
  run dlock --store "local:$BATS_TEST_TMPDIR/named" --namespace staging run job -- printenv DLOCK_STORE DLOCK_NAMESPACE
  assert_equal "$output" "local:$BATS_TEST_TMPDIR/named"$'\n'staging
}

@test "an inner run sees its own values and what is held above it, and the outer one still has its own after it" {
  run dlock --namespace outside run outer -- sh -c 'echo "outer=$DLOCK_FENCE"
    dlock --namespace inside run inner -- printenv DLOCK_NAME DLOCK_NAMESPACE DLOCK_HELD DLOCK_FENCE; echo "$DLOCK_NAME $DLOCK_NAMESPACE"'

  assert_equal "${lines[1]} ${lines[2]}" 'inner inside'
  assert_equal "${lines[3]}" "${lines[0]} inner=${lines[4]}"
  assert_equal "${lines[5]}" 'outer outside'
}

@test "no variable is set twice" {
  export DLOCK_NAME=old DLOCK_FENCE=1 DLOCK_FENCES=old=1 DLOCK_SLOT=9 DLOCK_SLOTS=old=9 DLOCK_HELD='' DLOCK_NAMESPACE=old

  dlock run job -- env -0 | tr '\n\0' ' \n' | cut -d = -f 1 | LC_ALL=C sort | uniq -d > twice

  assert_equal "$(< twice)" ''
}

# Prints the login and TLS variables that the command gets.
login_variables() { printenv | LC_ALL=C grep -E '^DLOCK_(USER|PASSWORD|TLS|SENTINEL|REPLICAS)' | LC_ALL=C sort; }

@test "the command gets the login and TLS options of the command line, the file and the environment, with absolute paths, but no password" {
  export -f login_variables
  here=$BATS_TEST_TMPDIR
  # Also within another run.
  run dlock --user me --password-file pw --tls-ca=certs/ca --tls-cert /c --tls-key ../k --tls-insecure \
    run outer -- bash -c 'cd / && dlock run job -- bash -c login_variables'
  assert_equal "$output" "DLOCK_PASSWORD_FILE=$here/pw
DLOCK_TLS_CA=$here/certs/ca
DLOCK_TLS_CERT=/c
DLOCK_TLS_INSECURE=true
DLOCK_TLS_KEY=$here/../k
DLOCK_USER=me"

  mkdir conf elsewhere
  printf 'user = "me"\npassword-file = "pw"\ntls-ca = "ca/all.pem"\n' > conf/dlock.toml
  cd elsewhere
  export DLOCK_SENTINEL_USER=watch DLOCK_SENTINEL_PASSWORD=hunter2 DLOCK_REPLICAS=all
  run dlock --config ../conf/dlock.toml --sentinel-password-file pw --sentinel-tls false --tls-name db.example.org \
    run job -- bash -c login_variables
  assert_equal "$output" "DLOCK_PASSWORD_FILE=$here/elsewhere/../conf/pw
DLOCK_REPLICAS=all
DLOCK_SENTINEL_PASSWORD_FILE=$here/elsewhere/pw
DLOCK_SENTINEL_TLS=false
DLOCK_SENTINEL_USER=watch
DLOCK_TLS_CA=$here/elsewhere/../conf/ca/all.pem
DLOCK_TLS_NAME=db.example.org
DLOCK_USER=me"
}

@test "all other variables reach the command unchanged" {
  odd=(env 'with space=1' 'a=b=c' 'empty=' $'lines=one\ntwo\n' $'bytes=\377\376' 'dlock_name=x'
    "long=$(printf '%050000d' 7)" 'TERM=x' 'LC_ALL=no-such-locale' 'PS1=$ ' 'x.y-z=1')

  "${odd[@]}" env -0 | variables -e '^DLOCK_' > without
  "${odd[@]}" dlock run job -- env -0 | variables -e '^DLOCK_' > with

  cmp with without
}

@test "only dlock's variables are added" {
  env -0 | variables | tr '\n\0' ' \n' | cut -d = -f 1 > without
  dlock run job -- env -0 | variables | tr '\n\0' ' \n' | cut -d = -f 1 > with

  run diff without with

  assert_equal "$(grep -c '^<' <<< "$output" || true)" 0
  assert_equal "$(grep '^>' <<< "$output" | sort | tr '\n' ' ')" \
    '> DLOCK_FENCE > DLOCK_FENCES > DLOCK_HELD > DLOCK_NAME > DLOCK_NAMESPACE > DLOCK_RUN_ID > DLOCK_SLOT > DLOCK_SLOTS '
}

@test "dlock runs with an empty environment" {
  run env -i "DLOCK_TEST_ID=$DLOCK_TEST_ID" "$(type -P dlock)" --store "$DLOCK_STORE" run job -- /bin/sh -c 'echo "$DLOCK_NAME"'

  assert_equal "$output" job
}

@test "the working directory, umask, limits and niceness are the caller's" {
  mkdir elsewhere
  cd elsewhere
  umask 037
  ulimit -S -n 200 -c 0

  run dlock run job -- nice -n 3 sh -c 'pwd -P; umask; nice; ulimit -a'

  assert_equal "$output" "$(nice -n 3 sh -c 'pwd -P; umask; nice; ulimit -a')"
}

@test "the command finds the same store in any directory and with any HOME" {
  use_open_place
  places=(HOME="$open_place/home" XDG_STATE_HOME="$open_place/home/state")

  run as_plain_user env -u DLOCK_STORE "${places[@]}" dlock run job -- sh -c '
    cd / && HOME=/nonexistent XDG_STATE_HOME=/nonexistent dlock status job'
  assert_status 0

  # The default store does not depend on the working directory.
  run as_plain_user env -u DLOCK_STORE -u XDG_STATE_HOME HOME="$open_place/home" dlock run job -- sh -c '
    cd / && env -u DLOCK_STORE dlock status job'
  assert_status 0
}

@test "a command is searched for in PATH, in order, where entries and files that cannot be used are skipped" {
  make_tool first
  make_tool second
  make_tool third
  make_tool without '#!/no/such/interpreter'
  chmod -x first/tool
  mkdir -p directory/tool
  touch file
  use_absolute_programs

  assert_found_as_by_env "$PWD/file:$PWD/missing:relative:$PWD/first:$PWD/directory:$PWD/third:$PWD/second:$PATH" tool
  assert_found_as_by_env "$PWD/without:$PWD/second:$PATH" tool
}

@test "without PATH the default directories are searched" {
  use_absolute_programs

  run env -u PATH "$dlock" run job -- sh -c 'echo found'

  assert_equal "$output" found
}

# Runs a command as systemd runs a service: with its pid in these variables, and a descriptor.
as_service() {  # <command>...
  sh -c 'echo listening > passed; exec 3< passed
    export LISTEN_PID=$$ LISTEN_FDS=1 WATCHDOG_PID=$$ WATCHDOG_USEC=9 SYSTEMD_EXEC_PID=$$
    exec "$@"' - "$@"
}

prints_itself='echo $$ $LISTEN_PID $LISTEN_FDS $WATCHDOG_PID $SYSTEMD_EXEC_PID; cat <&3'

@test "variables that name dlock as a service name the command instead, on every path" {
  local verb store
  for store in '' server; do
    [[ -z $store || ${DLOCK_TEST_STORE:-local} == redis ]] || use_server_as_store
    for verb in 'run job' 'run --timeout 1h job' 'run outer -- dlock run inner' \
      'limit rate 99/1s' 'cache --ttl 1h value'; do
      run as_service dlock $verb -- sh -c "$prints_itself"

      assert_status 0
      [[ ${lines[0]} =~ ^([0-9]+)\ ([0-9]+)\ 1\ ([0-9]+)\ ([0-9]+)$ ]]
      assert_equal "${BASH_REMATCH[*]:2}" "${BASH_REMATCH[1]} ${BASH_REMATCH[1]} ${BASH_REMATCH[1]}"
      assert_equal "${lines[1]}" listening
    done
  done
}

@test "DLOCK_HOST names the host in records, reports, --spread, --splay and --mine, and config shows it" {
  export DLOCK_HOST=node-7.example

  dlock run --report report job -- dlock status --json job > seen
  assert_equal "$(jq -r '.holders[0].host' seen) $(jq -r .host report)" 'node-7.example node-7.example'
  assert_equal "$(dlock history --json job | jq -r '.[0].runs[0].host // .[0].host // .runs[0].host')" node-7.example
  assert_equal "$(dlock run job -- printenv DLOCK_HOST)" node-7.example
  assert_equal "$(dlock config | awk '$1 == "host" { print $2, $3 }')" 'node-7.example DLOCK_HOST'
  assert_equal "$(DLOCK_HOST='' dlock config | awk '$1 == "host" { print $2, $3 }')" "$(uname -n) default"

  # Two containers of one machine are one host, and two machines of one image are two.
  run dlock run -n 2 --spread slots -- env DLOCK_HELD= dlock run -n 2 --spread slots true
  assert_status 75
  run dlock run -n 2 --spread slots -- env DLOCK_HELD= DLOCK_HOST=node-8 dlock run -n 2 --spread slots true
  assert_status 0
  assert_equal "$(dlock run job -- dlock list --mine --json | jq length)" 1
  assert_equal "$(dlock run job -- env DLOCK_HOST=node-8 dlock list --mine --json | jq length)" 0

  # The fixed delay is that of the name.
  local one again other
  one=$(dlock run -v --splay 100ms job true 2>&1 | grep splay)
  again=$(dlock run -v --splay 100ms job true 2>&1 | grep splay)
  other=$(DLOCK_HOST=node-9 dlock run -v --splay 100ms job true 2>&1 | grep splay)
  assert_equal "$again" "$one"
  [[ $other != "$one" ]]
}

@test "a host without a separate name is told of DLOCK_HOST where its name counts" {
  local name shown
  for name in '' localhost localhost.localdomain; do
    named=(unshare --map-root-user --uts /usr/bin/python3 -c
      'import os, socket, sys; socket.sethostname(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])' "$name")
    shown=${name:-(none)}
    for options in '--splay 1ms' '--slots 2 --spread'; do
      run "${named[@]}" dlock run $options job -- true
      assert_equal "$status $output" \
        "0 dlock: job: warning: this host is called $shown, as others may be: set DLOCK_HOST for --spread and --splay"
    done
    run "${named[@]}" dlock run --report - job -- true
    assert_equal "$(json .host)" "$shown"
  done
}

@test "a DLOCK_HOST that is no host name is refused" {
  local host
  for host in -x 'a b' $'a\nb' 'a/b' "$(printf '%0256d' 0)"; do
    DLOCK_HOST=$host run dlock run job -- touch began
    assert_status 64
    assert_output_contains 'DLOCK_HOST: not a host name'
    assert_one_line
  done
  [[ ! -e began ]]
}
